//! Plain text for terminals: columns two spaces apart, no trailing blanks.

use super::document::{Document, ReportPart, ReportTable};

impl Document {
    /// As plain text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for part in &self.parts {
            match part {
                ReportPart::Heading(heading) => out.push_str(&format!("\n{heading}\n")),
                ReportPart::Facts(facts) => {
                    out.push('\n');
                    let rows =
                        facts.iter().map(|(label, value)| vec![(*label).to_owned(), value.clone()]);
                    push_rows(&mut out, &rows.collect::<Vec<_>>());
                }
                ReportPart::Table(ReportTable { header, rows }) => {
                    let titles = header.iter().map(|title| title.to_uppercase()).collect();
                    let all: Vec<Vec<String>> =
                        std::iter::once(titles).chain(rows.iter().cloned()).collect();
                    push_rows(&mut out, &all);
                }
                ReportPart::Picture { .. } => {}
                ReportPart::Notes(notes) => {
                    for note in notes {
                        out.push_str(&format!("- {note}\n"));
                    }
                }
            }
        }
        out
    }
}

/// Cells of a column line up at its left side; the last column may be of any length.
fn push_rows(out: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(move |row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
