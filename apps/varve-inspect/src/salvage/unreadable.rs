//! The list of what cannot be read of one copy: a file beside it with a line a range, which exists only if there is
//! something to list.

use std::fmt;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;

use varve_client::Result;

use super::failed;

/// A list that is being written.
pub(super) struct Unreadable {
    path: PathBuf,
    /// Created with the first line.
    file: Option<File>,
    bytes: u64,
    /// The range that was added last: neighbours join it.
    last: Option<UnreadableRange>,
}

struct UnreadableRange {
    label: String,
    bytes: Range<u64>,
    why: String,
}

impl Unreadable {
    /// An empty list, which may become a file at `path`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, bytes: 0, last: None }
    }

    /// Adds a range; its line begins with the label.
    pub(super) fn add(&mut self, label: &str, bytes: Range<u64>, why: &str) -> Result<()> {
        self.bytes += bytes.end - bytes.start;
        if let Some(last) = &mut self.last
            && (last.bytes.end, &*last.label, &*last.why) == (bytes.start, label, why)
        {
            last.bytes.end = bytes.end;
            return Ok(());
        }
        self.write_last()?;
        self.last = Some(UnreadableRange { label: label.to_owned(), bytes, why: why.to_owned() });
        Ok(())
    }

    /// Adds something of which no part can be read.
    pub(super) fn add_whole(&mut self, name: &str, bytes: u64, why: &str) -> Result<()> {
        self.bytes += bytes;
        self.write_last()?;
        self.write(format_args!("{name}: {why}"))
    }

    /// Makes the list durable; the bytes that it lists, if it lists anything.
    pub(super) fn end(mut self) -> Result<Option<u64>> {
        self.write_last()?;
        let Some(file) = &self.file else { return Ok(None) };
        file.sync_all().map_err(|error| failed(&self.path, &error))?;
        Ok(Some(self.bytes))
    }

    fn write_last(&mut self) -> Result<()> {
        let Some(UnreadableRange { label, bytes, why }) = self.last.take() else { return Ok(()) };
        self.write(format_args!("{label}{} + {}: {why}", bytes.start, bytes.end - bytes.start))
    }

    fn write(&mut self, line: fmt::Arguments<'_>) -> Result<()> {
        let written = match &mut self.file {
            Some(file) => writeln!(file, "{line}"),
            None => File::create_new(&self.path)
                .and_then(|file| writeln!(self.file.insert(file), "{line}")),
        };
        written.map_err(|error| failed(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_are_lost_for_one_reason_share_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        let mut list = Unreadable::new(path.clone());
        list.add("a: bytes ", 0..4, "torn").unwrap();
        list.add("a: bytes ", 4..8, "torn").unwrap();
        list.add("a: bytes ", 8..9, "gone").unwrap();
        list.add("b: bytes ", 9..10, "gone").unwrap();
        list.add_whole("c", 5, "encrypted").unwrap();
        list.add("", 12..16, "gone").unwrap();
        assert_eq!(list.end().unwrap(), Some(19));
        let lines = "a: bytes 0 + 8: torn\na: bytes 8 + 1: gone\nb: bytes 9 + 1: gone\nc: encrypted\n12 + 4: gone\n";
        assert_eq!(std::fs::read_to_string(path).unwrap(), lines);
    }

    #[test]
    fn without_a_loss_there_is_no_file_and_an_empty_object_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        assert_eq!(Unreadable::new(path.clone()).end().unwrap(), None);
        assert!(!path.exists());
        let mut list = Unreadable::new(path);
        list.add_whole("empty", 0, "encrypted").unwrap();
        assert_eq!(list.end().unwrap(), Some(0));
    }
}
