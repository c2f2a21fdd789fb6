//! Markdown, to be copied into documents.

use super::document::{Document, ReportPart, ReportTable};

impl Document {
    /// As Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = format!("# {}\n", escaped(&self.title));
        let shown = self.parts.iter().filter(|part| !matches!(part, ReportPart::Picture { .. }));
        for part in shown {
            out.push('\n');
            match part {
                ReportPart::Heading(heading) => out.push_str(&format!("## {}\n", escaped(heading))),
                ReportPart::Facts(facts) => {
                    let rows =
                        facts.iter().map(|(label, value)| vec![(*label).to_owned(), value.clone()]);
                    push_table(&mut out, &["", ""], rows);
                }
                ReportPart::Table(ReportTable { header, rows }) => {
                    push_table(&mut out, header, rows.iter().cloned())
                }
                ReportPart::Picture { .. } => {}
                ReportPart::Notes(notes) => {
                    for note in notes {
                        out.push_str(&format!("- {}\n", escaped(note)));
                    }
                }
            }
        }
        out
    }
}

fn push_table(out: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut push = |cells: Vec<String>| out.push_str(&format!("| {} |\n", cells.join(" | ")));
    push(header.iter().map(|title| escaped(title)).collect());
    push(header.iter().map(|_| "---".to_owned()).collect());
    for row in rows {
        push(row.iter().map(|cell| escaped(cell)).collect());
    }
}

/// Text in which no character has a meaning for Markdown, on one line.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '\\' | '|' | '*' | '_' | '`' | '<' | '>' | '[' | ']' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
