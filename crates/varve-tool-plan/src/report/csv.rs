//! CSV as RFC 4180 has it: one header, and a line of six fields for each value, so that every program reads it without
//! knowing the report.
//!
//! CSV-1. A field that a spreadsheet would take for a formula begins with an apostrophe; one that is a number has no
//!     commas between its digits.
//! CSV-2. `number` holds the amount of a value, in one unit for each kind of amount, so that numbers of a column add up
//! whatever units their text has: B, B/s, bit/s, s, W, J. Amounts of other kinds keep their unit; text without an
//! amount leaves both empty.

use super::document::{Document, ReportPart, ReportTable};
use crate::units::{Amount, BitRate, ByteRate, Bytes, Joules, Seconds, Watts};

/// The header. `part` is the heading that a value stands under, `row` counts from 1, `column` is a title or label.
/// Facts are a row together.
const HEADER: [&str; 6] = ["part", "row", "column", "value", "number", "unit"];

impl Document {
    /// As CSV.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = HEADER.join(",") + "\r\n";
        let mut heading = self.title.as_str();
        for part in &self.parts {
            match part {
                ReportPart::Heading(text) => heading = text,
                ReportPart::Facts(facts) => {
                    for (label, value) in facts {
                        push_value(&mut out, [heading, "1", label, value]);
                    }
                }
                ReportPart::Table(ReportTable { header, rows }) => {
                    for (index, row) in rows.iter().enumerate() {
                        let number = (index + 1).to_string();
                        for (title, cell) in header.iter().zip(row) {
                            push_value(&mut out, [heading, &number, title, cell]);
                        }
                    }
                }
                ReportPart::Picture { .. } => {}
                ReportPart::Notes(notes) => {
                    for (index, note) in notes.iter().enumerate() {
                        let number = (index + 1).to_string();
                        push_line(&mut out, [heading, &number, "", note, "", ""]);
                    }
                }
            }
        }
        out
    }
}

fn push_value(out: &mut String, [heading, row, column, value]: [&str; 4]) {
    let (number, unit) = amount(value).unwrap_or_default();
    push_line(out, [heading, row, column, value, &number, &unit]);
}

/// The amount that a value is, or begins with before a comma or a bracket: `85.33 TB`, `32, bound by capacity`,
/// `256 (formula 267)` (CSV-2).
fn amount(value: &str) -> Option<(String, String)> {
    let ends = [value.find(", "), value.find(" (")].into_iter().flatten();
    let value = value.get(..ends.min().unwrap_or(value.len()))?.trim();
    let of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '-' | '+');
    let end = value.find(|c| !of_number(c)).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let unit = unit.trim();
    let number: f64 = number.replace(',', "").parse().ok()?;
    if unit.contains(char::is_whitespace) || unit.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let scaled = [
        scale::<Bytes>(unit),
        scale::<ByteRate>(unit),
        scale::<BitRate>(unit),
        scale::<Seconds>(unit),
        scale::<Watts>(unit),
        scale::<Joules>(unit),
    ];
    let (size, unit) = scaled.into_iter().flatten().next().unwrap_or((1.0, unit));
    // Units below 1 divide, since 1000 is exact and 0.001 is not.
    let number = if size < 1.0 { number / (1.0 / size).round() } else { number * size };
    // Twelve digits: what arithmetic adds beyond them is not in the text.
    let number: f64 = format!("{number:.11e}").parse().ok()?;
    Some((number.to_string(), unit.to_owned()))
}

/// How many of the base unit of `T` one of this unit is, and the base unit.
fn scale<T: Amount>(unit: &str) -> Option<(f64, &'static str)> {
    let (_, size) = T::UNITS.iter().find(|(name, _)| *name == unit)?;
    let (base, _) = T::UNITS.iter().find(|(_, size)| *size == 1.0)?;
    Some((*size, *base))
}

fn push_line(out: &mut String, fields: [&str; 6]) {
    out.push_str(&fields.map(field).join(","));
    out.push_str("\r\n");
}

fn field(text: &str) -> String {
    let digits = text.replace(',', "");
    let text = match digits.parse::<f64>() {
        Ok(_) => digits,
        Err(_) if text.starts_with(['=', '+', '-', '@', '\t', '\r']) => format!("'{text}"), // CSV-1
        Err(_) => text.to_owned(),
    };
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
