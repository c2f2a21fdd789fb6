//! Names: `dataset` or `namespace/dataset`, and `dataset@snapshot`; characters with a meaning, now or later, are
//! refused.
//!
//! NAME-1. A new name is measured in full, with its namespace, as it is stored. A lookup takes whatever may be stored:
//!     earlier versions measured names as they were typed, without the default namespace.

use varve_types::limits::NAME_BYTES_MAX;

use crate::{Error, Result};

/// Where datasets live whose name says nothing else.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

/// A checked name, in full.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct DatasetName {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl DatasetName {
    /// Checks the name of what is to be created, and fills in the default namespace (NAME-1).
    pub(crate) fn create(text: &str) -> Result<Self> {
        let name = Self::parse(text)?;
        match name.full().len() {
            ..=NAME_BYTES_MAX => Ok(name),
            _ => Err(Error::BadName { name: text.to_owned(), reason: TOO_LONG }),
        }
    }

    /// Checks the name of what may be stored, and fills in the default namespace.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: text.to_owned(), reason };
        let (namespace, name) = text.split_once('/').unwrap_or((DEFAULT_NAMESPACE, text));
        for part in [namespace, name] {
            check(part).map_err(bad)?;
        }
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// The name as people write it: without the default namespace.
    pub(crate) fn display(&self) -> String {
        if self.namespace == DEFAULT_NAMESPACE {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// The whole name, which decides its home.
    pub(crate) fn full(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// The whole name, with its namespace, of the volume that the name of an export means: of the volume itself, or of one
/// of its snapshots.
///
/// # Errors
/// [`Error::BadName`].
pub fn volume_of(export: &str) -> Result<String> {
    let volume = export.split_once(SNAPSHOT_MARK).map_or(export, |(volume, _)| volume);
    Ok(DatasetName::parse(volume)?.full())
}

/// A checked name of a snapshot, in full.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SnapshotName {
    /// The volume it is of.
    pub(crate) volume: DatasetName,
    pub(crate) snapshot: String,
}

/// Why a name is refused.
const TOO_LONG: &str =
    "it is longer than 255 bytes, with the namespace `default/` where it names none";

/// Why a name is refused that has nothing where a part of it should be.
const EMPTY: &str = "it is empty, or has nothing before or behind `/` or `@`";

/// Between the parts of a snapshot's name.
pub(crate) const SNAPSHOT_MARK: char = '@';

impl SnapshotName {
    /// Checks `text` and fills in the default namespace.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: text.to_owned(), reason };
        let Some((volume, snapshot)) = text.split_once(SNAPSHOT_MARK) else {
            return Err(bad("a snapshot is named VOLUME@SNAPSHOT"));
        };
        Self::of(&DatasetName::parse(volume)?, snapshot)
    }

    /// A snapshot of a volume.
    pub(crate) fn of(volume: &DatasetName, snapshot: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: snapshot.to_owned(), reason };
        check(snapshot).map_err(bad)?;
        Ok(Self { volume: volume.clone(), snapshot: snapshot.to_owned() })
    }

    /// The name as people write it: without the default namespace.
    pub(crate) fn display(&self) -> String {
        format!("{}{SNAPSHOT_MARK}{}", self.volume.display(), self.snapshot)
    }

    /// The whole name.
    pub(crate) fn full(&self) -> String {
        format!("{}{SNAPSHOT_MARK}{}", self.volume.full(), self.snapshot)
    }
}

fn check(part: &str) -> std::result::Result<(), &'static str> {
    let Some(first) = part.chars().next() else { return Err(EMPTY) };
    if part.len() > NAME_BYTES_MAX {
        return Err(TOO_LONG);
    }
    if !part.chars().all(is_plain) {
        return Err("use ASCII letters, digits, `-`, `_` and `.`, and one `/` behind a namespace");
    }
    if !first.is_ascii_alphanumeric() {
        return Err("it must start with a letter or digit");
    }
    Ok(())
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// The name by which a record is deleted whose stored name is none: `%` and two hexadecimal digits for every byte that
/// names do not have, and for the first one where there is no other. No name of a volume has a `%`.
pub(crate) fn escaped(stored: &[u8]) -> String {
    let plain = |byte: u8| is_plain(char::from(byte)) || matches!(byte, b'/' | b'@');
    let first_too = stored.iter().all(|byte| plain(*byte));
    let mut text = if stored.is_empty() { "%".to_owned() } else { String::new() };
    for (at, byte) in stored.iter().enumerate() {
        if plain(*byte) && !(first_too && at == 0) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// What [`escaped`] was made of; `None` for other text.
pub(crate) fn unescaped(text: &str) -> Option<Vec<u8>> {
    if text == "%" {
        return Some(Vec::new());
    }
    let mut parts = text.split('%');
    let mut stored = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        stored.push(u8::from_str_radix(digits, 16).ok()?);
        stored.extend_from_slice(rest.as_bytes());
    }
    (escaped(&stored) == text).then_some(stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_namespace_is_filled_in_and_left_out() {
        let name = DatasetName::parse("vm1").unwrap();
        assert_eq!((name.full(), name.display()), ("default/vm1".to_owned(), "vm1".to_owned()));
        assert_eq!(DatasetName::parse("lab/vm-1.2").unwrap().display(), "lab/vm-1.2");
    }

    #[test]
    fn snapshots_are_named_behind_their_volume() {
        let name = SnapshotName::parse("lab/vm1@2026-11-22").unwrap();
        assert_eq!(
            (name.full(), name.display()),
            (name.display(), "lab/vm1@2026-11-22".to_owned())
        );
        assert_eq!(SnapshotName::parse("vm1@a").unwrap().full(), "default/vm1@a");
        for bad in ["vm1", "vm1@", "@a", "vm1@a@b", "vm1@a/b", "vm1@-a", "vm1@ä"] {
            assert!(SnapshotName::parse(bad).is_err(), "{bad:?}");
        }
        assert!(SnapshotName::parse(&format!("v@{}", "a".repeat(256))).is_err());
    }

    #[test]
    fn characters_with_a_meaning_are_refused() {
        for bad in ["", "/", "a/", "/a", "a/b/c", "a@b", "a b", ".a", "-a", "ä", "a\0", "a%2f"] {
            assert!(DatasetName::parse(bad).is_err(), "{bad:?}");
        }
        for empty in ["", "/", "a/", "/a"] {
            let refused = DatasetName::parse(empty).unwrap_err().to_string();
            assert!(refused.contains("nothing before or behind `/` or `@`"), "{refused}");
        }
        assert!(DatasetName::parse(&"a".repeat(256)).is_err());
    }

    #[test]
    fn new_names_are_measured_in_full_and_any_that_was_stored_is_found() {
        let fits = "a".repeat(255 - "default/".len());
        assert_eq!(DatasetName::create(&fits).unwrap().full().len(), 255);
        for len in [248, 255] {
            let long = "a".repeat(len);
            assert!(DatasetName::create(&long).is_err(), "{len}");
            let stored = DatasetName::parse(&long).unwrap().full();
            assert_eq!(DatasetName::parse(&stored).unwrap().display(), long);
            let snapshot = SnapshotName::parse(&format!("{stored}@s")).unwrap();
            assert_eq!(snapshot.volume.display(), long);
        }
        assert!(DatasetName::create(&format!("lab/{}", "a".repeat(251))).is_ok());
        assert!(DatasetName::create(&format!("lab/{}", "a".repeat(252))).is_err());
    }

    #[test]
    fn whatever_is_stored_as_a_name_has_an_escaped_one() {
        for stored in [&b""[..], b"default/a b", b"a%", b"\xFF\x00", b"a/b/c", b".a", b"x@y@z"] {
            let text = escaped(stored);
            assert!(text.contains('%') && text.is_ascii(), "{text}");
            assert_eq!(unescaped(&text).as_deref(), Some(stored), "{text}");
        }
        for other in ["", "vm1", "%zz", "a%4", "%61%62", "%%", "ä%20"] {
            assert_eq!(unescaped(other), None, "{other}");
        }
    }
}
