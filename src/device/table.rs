//! Tables shipped as text: one entry a line, columns named by the first.

/// A table of the program's own.
pub(crate) struct Table(pub(crate) &'static str);

/// One row of a table, by column name.
pub(crate) struct Row<'a> {
    columns: &'a [&'static str],
    cells: Vec<&'static str>,
    line: usize,
}

impl Row<'_> {
    /// The text of a column.
    pub(crate) fn text(&self, column: &str) -> &'static str {
        let index = self.columns.iter().position(|c| *c == column);
        index
            .and_then(|i| self.cells.get(i))
            .unwrap_or_else(|| panic!("line {}: no column {column}", self.line))
    }

    /// The number of a column; `None` where the cell is empty.
    pub(crate) fn number(&self, column: &str) -> Option<f64> {
        let text = self.text(column);
        let parsed = || {
            text.parse()
                .unwrap_or_else(|_| panic!("line {}: {column}: {text}", self.line))
        };
        (!text.is_empty()).then(parsed)
    }

    /// The parts of a cell that holds several, split at `|`.
    pub(crate) fn parts(&self, column: &str) -> impl Iterator<Item = &'static str> {
        self.text(column).split('|').filter(|part| !part.is_empty())
    }
}

impl Table {
    /// Calls `each` with every row. The tables are part of the program, so a
    /// row that cannot be read is a bug: tests read them all.
    pub(crate) fn each(&self, mut each: impl FnMut(&Row<'_>)) {
        let mut lines = self
            .0
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let Some((_, header)) = lines.next() else {
            return;
        };
        let columns: Vec<&'static str> = header.split(',').collect();
        for (number, line) in lines {
            let cells: Vec<&'static str> = line.split(',').collect();
            assert_eq!(cells.len(), columns.len(), "line {}: cells", number + 1);
            each(&Row {
                columns: &columns,
                cells,
                line: number + 1,
            });
        }
    }
}
