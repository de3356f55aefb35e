//! Plain tables: a header and rows of cells.

/// The rows below a header, each with its line number.
pub(super) fn rows(text: &str, header: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let found = lines.next().map(|(_, line)| line.replace(' ', ""));
    if found.as_deref() != Some(header) {
        let found = found.unwrap_or_default();
        return Err(format!("the first line is `{found}`, expected `{header}`"));
    }
    let columns = header.split(',').count();
    lines
        .map(|(number, line)| {
            let cells: Vec<String> = line.split(',').map(|c| c.trim().to_owned()).collect();
            if cells.len() == columns {
                Ok((number, cells))
            } else {
                Err(format!(
                    "line {number}: {} cells, expected {columns} ({header})",
                    cells.len()
                ))
            }
        })
        .collect()
}

/// A number in a cell.
pub(super) fn number(line: usize, header: &str, column: usize, cell: &str) -> Result<f64, String> {
    let name = header.split(',').nth(column).unwrap_or_default();
    cell.parse::<f64>()
        .ok()
        .filter(|x| x.is_finite())
        .ok_or_else(|| format!("line {line}: {name} is `{cell}`, expected a number"))
}
