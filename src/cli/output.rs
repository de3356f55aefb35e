//! Results to stdout, everything else to stderr.

use super::args::Format;
use super::files::Failure;
use comfy_table::{ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Writes a result. A reader that went away is no error.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())?;
    if text.ends_with('\n') {
        Ok(())
    } else {
        print_bytes(b"\n")
    }
}

/// Writes a result that is no text.
pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes);
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

/// Writes something for whoever looks on.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes what was assumed or is odd.
pub(super) fn warn(warnings: &[String]) {
    const MOST: usize = 10;
    let mut err = io::stderr().lock();
    for warning in warnings.iter().take(MOST) {
        let _ = writeln!(err, "warning: {warning}");
    }
    if warnings.len() > MOST {
        let _ = writeln!(
            err,
            "warning: and {} more like these",
            warnings.len() - MOST
        );
    }
}

/// Writes why a command failed.
pub(super) fn error(error: &Failure) {
    let mut err = io::stderr().lock();
    let text = error.to_string();
    let coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let head = if coloured {
        "\x1b[1;31merror:\x1b[0m"
    } else {
        "error:"
    };
    let mut first = true;
    for line in text.lines() {
        let indented = line.starts_with(' ');
        let prefix = if indented { "" } else { head };
        let gap = if indented || first { "" } else { "\n" };
        let _ = if indented {
            writeln!(err, "{line}")
        } else {
            write!(err, "{gap}").and_then(|()| writeln!(err, "{prefix} {line}"))
        };
        first = false;
    }
}

/// A value as a document.
pub(super) fn document<T: Serialize>(value: &T, format: Format) -> Result<String, Failure> {
    match format {
        Format::Yaml => Ok(serde_yaml::to_string(value)?),
        _ => Ok(serde_json::to_string_pretty(value)?),
    }
}

/// A rule under the header, nothing else.
const PLAIN: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// A table that fits the terminal.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(PLAIN)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.iter().copied());
    if !io::stdout().is_terminal() {
        table.set_width(width());
    }
    table
}

/// Columns to fill: the terminal's, `COLUMNS`, or 100 where nobody says.
pub(super) fn width() -> u16 {
    const NARROWEST: u16 = 40;
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|c| c.parse::<u16>().ok());
    columns.unwrap_or(100).max(NARROWEST)
}

/// Rows as CSV; cells with separators are quoted.
pub(super) fn csv(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let quoted: Vec<String> = cells
            .map(|cell| {
                if cell.contains([',', '"', '\n']) {
                    format!("\"{}\"", cell.replace('"', "\"\""))
                } else {
                    cell.to_owned()
                }
            })
            .collect();
        text.push_str(&quoted.join(","));
        text.push('\n');
    };
    line(&mut header.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

/// A text in lines of at most `width` characters, broken at spaces.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while let Some((limit, _)) = rest.char_indices().nth(width) {
        let cut = rest[..limit].rfind(' ').unwrap_or(limit);
        lines.push(rest[..cut].trim_end());
        rest = rest[cut..].trim_start();
    }
    lines.push(rest);
    lines
}

/// A number of things, in words that agree.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}
