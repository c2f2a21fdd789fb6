//! What was copied and what was not, for people.

use std::fmt::Write;

use varve_types::ByteCount;

/// What became of one volume or snapshot.
#[derive(Clone, Debug)]
pub(crate) struct CopyOutcome {
    /// Its name.
    pub(super) name: String,
    /// Bytes of data in its image.
    pub(super) data_bytes: u64,
    /// Bytes of it that cannot be read, if there is anything that cannot: objects may be empty.
    pub(super) unreadable_bytes: Option<u64>,
}

/// What became of the pool.
#[derive(Default, Debug)]
pub struct SalvageReport {
    copied: Vec<CopyOutcome>,
    notes: Vec<String>,
}

impl SalvageReport {
    /// Adds something that is not copied, or not whole.
    pub(super) fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// Adds a volume or snapshot.
    pub(super) fn add(&mut self, copied: CopyOutcome) {
        self.copied.push(copied);
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.notes.is_empty() && self.copied.iter().all(|copied| copied.unreadable_bytes.is_none())
    }

    /// A line for each volume, snapshot and loss.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for note in &self.notes {
            let _ = writeln!(text, "lost: {note}");
        }
        for CopyOutcome { name, data_bytes, unreadable_bytes } in &self.copied {
            let data = ByteCount(*data_bytes);
            let _ = match unreadable_bytes.map(ByteCount) {
                None => writeln!(text, "{name}: {data} of data, all of it"),
                Some(lost) => writeln!(text, "{name}: {data} of data; {lost} cannot be read"),
            };
        }
        text
    }
}
