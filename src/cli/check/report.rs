//! Checks as a table, JSON, `JUnit` and GitHub annotations.

use super::Done;
use crate::check::{Finding, Verdict};
use crate::cli::args::CheckFormat;
use crate::cli::files::Failure;
use crate::cli::output;
use crate::cli::view::PredictionView;
use serde::Serialize;
use std::fmt::Write;

pub(super) fn of(done: &[Done], format: CheckFormat) -> Result<String, Failure> {
    Ok(match format {
        CheckFormat::Table => table(done),
        CheckFormat::Json => json(done)?,
        CheckFormat::Junit => junit(done),
        CheckFormat::Github => github(done),
    })
}

/// What a verdict says, a sentence a line.
fn sentences(verdict: &Verdict) -> Vec<String> {
    let mut lines: Vec<String> = verdict.findings.iter().map(Finding::words).collect();
    if !verdict.holds() {
        lines.push(format!("limited by {}", verdict.prediction.bottleneck));
        if verdict.mends.is_empty() {
            lines.push("no faster NIC, other number of workers or larger batch mends it".into());
        }
        lines.extend(verdict.mends.iter().map(|m| format!("would do: {m}")));
    }
    lines
}

fn lines_of(done: &Done) -> Vec<String> {
    match &done.verdict {
        Ok(verdict) => sentences(verdict),
        Err(why) => vec![format!("cannot be checked: {why}")],
    }
}

fn word(done: &Done) -> &'static str {
    match &done.verdict {
        Ok(verdict) if verdict.holds() => "holds",
        Ok(_) => "falls short",
        Err(_) => "broken",
    }
}

fn table(done: &[Done]) -> String {
    let mut table = output::table(&["check", "", "why"]);
    for check in done {
        table.add_row(vec![
            check.name.clone(),
            word(check).to_owned(),
            lines_of(check).join("\n"),
        ]);
    }
    let short = done.iter().filter(|d| !d.holds()).count();
    let sum = match short {
        0 => format!("{}: all hold", output::count(done.len(), "check")),
        1 => format!("{}: 1 does not hold", output::count(done.len(), "check")),
        _ => format!(
            "{}: {short} do not hold",
            output::count(done.len(), "check")
        ),
    };
    format!("{table}\n\n{sum}\n")
}

#[derive(Serialize)]
struct CheckView<'a> {
    name: &'a str,
    holds: bool,
    findings: Vec<FindingView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    mends: &'a [String],
    prediction: Option<PredictionView>,
}

#[derive(Serialize)]
struct FindingView {
    bound: String,
    wanted: f64,
    found: f64,
    holds: bool,
    message: String,
}

#[derive(Serialize)]
struct WholeView<'a> {
    holds: bool,
    checks: Vec<CheckView<'a>>,
}

fn json(done: &[Done]) -> Result<String, Failure> {
    let whole = WholeView {
        holds: done.iter().all(Done::holds),
        checks: done.iter().map(view).collect(),
    };
    Ok(serde_json::to_string_pretty(&whole)?)
}

fn view(check: &Done) -> CheckView<'_> {
    let verdict = check.verdict.as_ref().ok();
    let findings = verdict.map_or(&[][..], |v| &v.findings);
    CheckView {
        name: &check.name,
        holds: check.holds(),
        findings: findings
            .iter()
            .map(|f| FindingView {
                bound: format!("{:?}", f.bound),
                wanted: f.wanted,
                found: f.found,
                holds: f.holds(),
                message: f.words(),
            })
            .collect(),
        error: check.verdict.as_ref().err().map(String::as_str),
        mends: verdict.map_or(&[], |v| &v.mends),
        prediction: verdict.map(|v| PredictionView::from(&v.prediction)),
    }
}

/// Text as XML wants it.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' => safe.push_str("&#10;"),
            c if c.is_control() => safe.push('?'),
            c => safe.push(c),
        }
    }
    safe
}

fn junit(done: &[Done]) -> String {
    let failures = done
        .iter()
        .filter(|d| d.verdict.is_ok() && !d.holds())
        .count();
    let errors = done.iter().filter(|d| d.verdict.is_err()).count();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"stepcast\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\">\n",
        done.len()
    );
    for check in done {
        let (name, lines) = (escaped(&check.name), lines_of(check));
        let said = escaped(&lines.join("\n"));
        let first = escaped(lines.first().map_or("", String::as_str));
        let tag = match word(check) {
            "holds" => {
                let _ = writeln!(
                    text,
                    "<testcase classname=\"stepcast\" name=\"{name}\"><system-out>{said}</system-out></testcase>"
                );
                continue;
            }
            "broken" => "error",
            _ => "failure",
        };
        let _ = writeln!(
            text,
            "<testcase classname=\"stepcast\" name=\"{name}\"><{tag} message=\"{first}\">{said}</{tag}></testcase>"
        );
    }
    text + "</testsuite>\n</testsuites>\n"
}

/// Workflow commands: an annotation for each check that does not hold.
fn github(done: &[Done]) -> String {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let mut text = String::new();
    for check in done {
        let level = if check.holds() { "notice" } else { "error" };
        let said = lines_of(check).join("\n");
        let _ = writeln!(
            text,
            "::{level} file={},title={}::{}",
            property(&check.file),
            property(&format!("stepcast: {}", check.name)),
            data(&said)
        );
    }
    text
}
