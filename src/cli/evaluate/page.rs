//! Evaluations as Markdown.

use super::percent;
use super::suite::Item;
use crate::evaluate::{Judged, Report, Way};
use std::fmt::Write;

/// What one evaluation came to.
pub(super) struct Section {
    text: String,
    summary: Vec<String>,
}

/// The rivals of the page's tables, where they answer.
const RIVALS: usize = 12;

pub(super) fn section(item: &Item, report: &Report<'_>) -> Section {
    let mut text = format!("## {}\n\n{}\n\n", item.title, item.about.trim());
    let groups = report.groups();
    let overall = report.overall();
    let judged: Vec<&Judged> = groups
        .iter()
        .chain((groups.len() > 1).then_some(&overall))
        .collect();
    text += "| group | runs | mean | median | worst | bias | in its 90 % interval |\n|---|---|---|---|---|---|---|\n";
    for j in &judged {
        let Some(e) = j.ours else { continue };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:+.1} % | {:.0} % |",
            j.group,
            e.runs,
            percent(e.mape),
            percent(e.median_ape),
            percent(e.worst_ape),
            e.bias * 100.0,
            j.coverage * 100.0
        );
    }
    let ways: Vec<Way> = report.ways().into_iter().take(RIVALS).collect();
    if ways.len() > 1 {
        let names: Vec<&str> = ways.iter().map(|w| w.as_str()).collect();
        let _ = writeln!(
            text,
            "\nMean error of others on the same runs:\n\n| group | {} |\n|---|{}",
            names.join(" | "),
            "---|".repeat(ways.len())
        );
        for j in &judged {
            let cells: Vec<String> = ways
                .iter()
                .map(|way| {
                    let found = j.ways.iter().find(|(w, _)| w == way);
                    found.map_or("–".to_owned(), |(_, e)| percent(e.mape))
                })
                .collect();
            let _ = writeln!(text, "| {} | {} |", j.group, cells.join(" | "));
        }
    }
    let _ = writeln!(
        text,
        "\n![predicted against measured](accuracy/{}.svg)",
        item.name
    );
    Section {
        summary: summary(item, &groups, &overall),
        text,
    }
}

/// Lines of the table at the top of the page.
fn summary(item: &Item, groups: &[Judged], overall: &Judged) -> Vec<String> {
    let line = |what: &str, judged: &Judged, at_most: Option<f64>| {
        let ours = judged.ours.map_or("–".to_owned(), |e| percent(e.mape));
        let rival = judged.ways.iter().find(|(w, _)| *w == Way::Pollux);
        let rival = rival.map_or("–".to_owned(), |(_, e)| percent(e.mape));
        let promised = at_most.map_or("–".to_owned(), percent);
        format!("| {what} | {ours} | {promised} | {rival} |")
    };
    if item.at_most_of.is_empty() {
        return vec![line(&item.title, overall, item.at_most)];
    }
    groups
        .iter()
        .filter_map(|judged| {
            let at_most = item.at_most_of.get(&judged.group)?;
            let what = format!("{} ({})", item.title, judged.group);
            Some(line(&what, judged, Some(*at_most)))
        })
        .collect()
}

pub(super) fn whole(items: &[Item], sections: &[Section]) -> String {
    let mut text = String::from(
        "# Accuracy\n\nWritten by `stepcast evaluate --suite docs/accuracy/suite.yaml --page docs/accuracy.md`; CI checks that it is current. Errors are |predicted / measured − 1| of runs that nothing was fitted on. Rivals get the same runs to fit on and the same compute times.\n\n| evaluation | mean error | promised at most | Pollux's 7-parameter model |\n|---|---|---|---|\n",
    );
    for line in sections.iter().flat_map(|s| &s.summary) {
        text.push_str(line);
        text.push('\n');
    }
    for (_, section) in items.iter().zip(sections) {
        text.push('\n');
        text.push_str(&section.text);
    }
    text
}

/// Where two pages differ by more than rounding; machines differ in the last
/// digits.
pub(super) fn difference(there: &str, now: &str) -> Option<String> {
    const ROUNDING: f64 = 0.31;
    const RUN_MORE: f64 = 3.0;
    let same = |a: &str, b: &str, unit: Option<&&str>| {
        let near = if a.contains('.') { ROUNDING } else { RUN_MORE };
        a == b
            || match (a.parse::<f64>(), b.parse::<f64>()) {
                // Counts of runs are exact.
                (Ok(a), Ok(b)) => unit == Some(&"%") && (a - b).abs() <= near.max(0.02 * a.abs()),
                _ => false,
            }
    };
    let (mut old, mut new) = (there.lines(), now.lines());
    loop {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (Some(a), Some(b)) => {
                let (x, y): (Vec<&str>, Vec<&str>) = (
                    a.split_whitespace().collect(),
                    b.split_whitespace().collect(),
                );
                let differs = |i: usize| !same(x[i], y[i], x.get(i + 1));
                if x.len() != y.len() || (0..x.len()).any(differs) {
                    return Some(format!("`{a}` should be `{b}`"));
                }
            }
            (a, b) => return Some(format!("{a:?} should be {b:?}")),
        }
    }
}
