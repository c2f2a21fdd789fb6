//! CSV as RFC 4180 has it: one header, and a line of four fields for each value, so that every program reads it without knowing the report.
//!
//! C1. A field that a spreadsheet would take for a formula begins with an apostrophe; one that is a number has no commas between its digits.

use super::document::{Document, Part, Table};

/// The header. `part` is the heading that a value stands under, `row` counts from 1, `column` is a title or label. Facts are a row together.
const HEADER: [&str; 4] = ["part", "row", "column", "value"];

impl Document {
    /// As CSV.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::new();
        push_line(&mut out, HEADER);
        let mut heading = self.title.as_str();
        for part in &self.parts {
            match part {
                Part::Heading(text) => heading = text,
                Part::Facts(facts) => {
                    for (label, value) in facts {
                        push_line(&mut out, [heading, "1", label, value]);
                    }
                }
                Part::Table(Table { header, rows }) => {
                    for (index, row) in rows.iter().enumerate() {
                        let number = (index + 1).to_string();
                        for (title, cell) in header.iter().zip(row) {
                            push_line(&mut out, [heading, &number, title, cell]);
                        }
                    }
                }
                Part::Picture { .. } => {}
                Part::Notes(notes) => {
                    for (index, note) in notes.iter().enumerate() {
                        push_line(&mut out, [heading, &(index + 1).to_string(), "", note]);
                    }
                }
            }
        }
        out
    }
}

fn push_line(out: &mut String, fields: [&str; 4]) {
    out.push_str(&fields.map(field).join(","));
    out.push_str("\r\n");
}

fn field(text: &str) -> String {
    let digits = text.replace(',', "");
    let text = match digits.parse::<f64>() {
        Ok(_) => digits,
        Err(_) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{text}"), // C1
        Err(_) => text.to_owned(),
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
