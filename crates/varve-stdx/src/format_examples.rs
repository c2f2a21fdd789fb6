//! Pages of worked examples, for tests: structures of `docs/format.md`, field by field as its tables name them, and
//! files of the repository that must be what the code makes of them.

use std::fmt::Write;
use std::fs;
use std::mem::take;
use std::path::Path;

const FORMAT: &str = include_str!("../../../docs/format.md");

/// Bytes in a line.
const ROW_BYTES: usize = 16;

/// A page of `docs/format-examples`: one value of each structure that a crate stores.
#[derive(Debug)]
pub struct ExamplesPage {
    path: String,
    text: String,
}

/// A row of a table of `docs/format.md`.
struct TableField {
    name: &'static str,
    /// None where it depends on counts and lengths before.
    size: Option<usize>,
}

impl ExamplesPage {
    /// The page with that file name, of a subject, which a test of a crate compares.
    #[must_use]
    pub fn new(file: &str, subject: &str, crate_name: &str) -> Self {
        let text = format!(
            "# Worked examples: {subject}\n\n\
             One value of each structure that `{crate_name}` stores: offset, size and name of each field as\n\
             [format.md](../format.md) has them, its bytes, and the number or text that they are. `*` stands for repeated\n\
             rows, `00 × 9` for as many equal bytes. A test of `{crate_name}` compares this page with the encoders.\n"
        );
        Self { path: format!("docs/format-examples/{file}.md"), text }
    }

    /// Adds a value of a structure, by the title that it has in `docs/format.md`.
    ///
    /// # Panics
    /// When there is no such structure, or the bytes are fewer than its fields have.
    #[must_use]
    pub fn example(mut self, structure: &str, bytes: &[u8]) -> Self {
        self.text += &format!("\n## {structure}\n\n```text\n");
        self.text += &annotate_bytes(&fields_of(structure), bytes);
        self.text += "```\n";
        self
    }

    /// Compares the page with the stored one, see [`compare_file`].
    pub fn compare(&self) {
        compare_file(&self.path, self.text.as_bytes());
    }
}

/// Fails unless a file of the repository holds these bytes. With `VARVE_UPDATE_SNAPSHOTS` set it is written before.
///
/// # Panics
/// When the file holds other bytes, or is not there.
pub fn compare_file(path: &str, made: &[u8]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("VARVE_UPDATE_SNAPSHOTS").is_some() {
        let directory = file.parent().expect("it is in the repository");
        fs::create_dir_all(directory).expect("the repository can be written");
        fs::write(&file, made).expect("the repository can be written");
    }
    if let Some(line) = stale_line(&fs::read(&file).unwrap_or_default(), made) {
        panic!("{path} is stale from line {line} on: VARVE_UPDATE_SNAPSHOTS=1 writes it");
    }
}

/// Number of the first line that differs.
fn stale_line(stored: &[u8], made: &[u8]) -> Option<usize> {
    let equal = stored.iter().zip(made).take_while(|(stored, made)| stored == made).count();
    let line = made[..equal].split(|byte| *byte == b'\n').count();
    (stored != made).then_some(line)
}

fn fields_of(structure: &str) -> Vec<TableField> {
    let section = FORMAT.split_once(&format!("\n### {structure} ("));
    let (_, section) =
        section.unwrap_or_else(|| panic!("docs/format.md has no structure `{structure}`"));
    let rows = section.lines().skip_while(|line| !line.starts_with("| offset |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        TableField { name: cells[3], size: cells[2].parse().ok() }
    })
    .collect()
}

/// A line for each field. What has no fixed size is one field, and so is what stands behind the last one.
fn annotate_bytes(fields: &[TableField], bytes: &[u8]) -> String {
    let fixed: usize = fields.iter().filter_map(|field| field.size).sum();
    assert!(bytes.len() >= fixed, "{} bytes are fewer than the fields' {fixed}", bytes.len());
    let mut variable_len = bytes.len() - fixed;
    let variable = fields.iter().filter(|field| field.size.is_none()).map(|field| field.name);
    let variable = variable.collect::<Vec<_>>().join(", ");
    let mut out = format!("{:>6} {:>5}  {:<19} bytes\n", "offset", "size", "field");
    let mut offset = 0;
    for field in fields {
        let (name, len) = match field.size {
            Some(len) => (field.name, len),
            None => (&*variable, take(&mut variable_len)),
        };
        let value = &bytes[offset..offset + len];
        let reading = describe_value(field, value);
        put_field(&mut out, offset, name, value, &reading);
        offset += len;
    }
    put_field(&mut out, offset, "behind it", &bytes[offset..], "");
    out
}

/// The text or number that a field is; nothing where its bytes say as much.
fn describe_value(field: &TableField, bytes: &[u8]) -> String {
    let is_other = ["magic", "reserved"].contains(&field.name)
        || ["checksum", ","].iter().any(|part| field.name.contains(*part));
    if matches!(field.size, Some(1..=8)) && !is_other {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        return u64::from_le_bytes(wide).to_string();
    }
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let text = &bytes[..end];
    let is_text = end > 3 && text.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    if is_text { format!("\"{}\"", text.escape_ascii()) } else { String::new() }
}

fn put_field(out: &mut String, offset: usize, name: &str, bytes: &[u8], reading: &str) {
    let len = bytes.len();
    let mut put = |at: usize, head: String, text: String| {
        let line = format!("{at:>6} {head:<26} {text}");
        writeln!(out, "{}", line.trim_end()).expect("a string takes all");
    };
    let head = format!("{len:>5}  {name}");
    if len > ROW_BYTES && bytes.iter().all(|byte| *byte == bytes[0]) {
        put(offset, head, format!("{:02x} × {len}", bytes[0]));
        return;
    }
    let mut head = Some(head);
    let mut previous: Option<&[u8]> = None;
    let mut is_repeated = false;
    for (index, row) in bytes.chunks(ROW_BYTES).enumerate() {
        let at = index * ROW_BYTES;
        let is_repetition = previous == Some(row) && at + ROW_BYTES < len;
        if !is_repetition {
            let hex: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
            let reading = if index == 0 { reading } else { "" };
            let text = format!("{:<47}  {reading}", hex.join(" "));
            put(offset + at, head.take().unwrap_or_default(), text);
        } else if !is_repeated {
            put(offset + at, "*".to_owned(), String::new());
        }
        is_repeated = is_repetition;
        previous = Some(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures that the page of `varve-logstore` shows as parts of a frame, a summary and a page.
    const SHOWN_AS_PARTS: [&str; 4] =
        ["Frame header", "Record descriptor", "Summary entry", "Page header"];

    fn words(text: &str) -> Vec<Vec<&str>> {
        text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect()
    }

    #[test]
    fn fields_are_those_of_the_document() {
        let mut bytes = [0; 21];
        (bytes[0], bytes[4], bytes[10], bytes[20]) = (42, 7, 1, 0xEE);
        let text = annotate_bytes(&fields_of("Location"), &bytes);
        let expected: [&[&str]; 6] = [
            &["0", "4", "slot", "2a", "00", "00", "00", "42"],
            &["4", "6", "generation", "07", "00", "00", "00", "00", "00", "7"],
            &["10", "2", "offset_512", "01", "00", "1"],
            &["12", "4", "stored_len", "00", "00", "00", "00", "0"],
            &["16", "4", "checksum", "00", "00", "00", "00"],
            &["20", "1", "behind", "it", "ee"],
        ];
        assert_eq!(words(&text), expected);
    }

    #[test]
    fn what_varies_stands_before_the_checksum() {
        let fields = [
            TableField { name: "magic", size: Some(4) },
            TableField { name: "nodes", size: None },
            TableField { name: "cells", size: None },
            TableField { name: "reserved", size: Some(17) },
            TableField { name: "checksum", size: Some(1) },
        ];
        let bytes = [&b"VARV"[..], &[1; 16], &[1; 16], &[1; 16], &[2; 4], &[0; 17], &[9]].concat();
        let text = annotate_bytes(&fields, &bytes);
        let lines = words(&text);
        assert_eq!(lines[0], ["0", "4", "magic", "56", "41", "52", "56", "\"VARV\""]);
        assert_eq!(lines[1][..5], ["4", "52", "nodes,", "cells", "01"]);
        assert_eq!(lines[2], ["20", "*"]);
        assert_eq!(lines[3], ["52", "02", "02", "02", "02"]);
        assert_eq!(lines[4], ["56", "17", "reserved", "00", "×", "17"]);
        assert_eq!(lines[5], ["73", "1", "checksum", "09"]);
    }

    #[test]
    fn the_first_stale_line_is_found() {
        assert_eq!(stale_line(b"a\nb\nc", b"a\nb\nc"), None);
        assert_eq!(stale_line(b"a\nb\nc", b"a\nx\nc"), Some(2));
        assert_eq!(stale_line(b"a\nb\n", b"a\nb\nc"), Some(3));
        assert_eq!(stale_line(b"", b"a"), Some(1));
    }

    #[test]
    fn every_structure_has_an_example() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format-examples");
        let pages = fs::read_dir(pages).unwrap().map(|page| page.unwrap().path());
        let examples: String = pages.map(|page| fs::read_to_string(page).unwrap()).collect();
        for section in FORMAT.split("\n### ").skip(1) {
            let (structure, _) = section.split_once(" (").unwrap();
            let is_shown = examples.contains(&format!("\n## {structure}"));
            assert!(is_shown || SHOWN_AS_PARTS.contains(&structure), "{structure}");
        }
    }
}
