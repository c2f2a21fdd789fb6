//! Names: `dataset` or `namespace/dataset`, and `dataset@snapshot`; characters with a meaning, now or later, are refused.

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
    /// Checks `text` and fills in the default namespace.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: text.to_owned(), reason };
        if text.len() > NAME_BYTES_MAX {
            return Err(bad("it is longer than 255 bytes"));
        }
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

/// The whole name, with its namespace, of the volume that the name of an export means: of the volume itself, or of one of its snapshots.
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

/// Between the parts of a snapshot's name.
pub(crate) const SNAPSHOT_MARK: char = '@';

impl SnapshotName {
    /// Checks `text` and fills in the default namespace.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: text.to_owned(), reason };
        let Some((volume, snapshot)) = text.split_once(SNAPSHOT_MARK) else {
            return Err(bad("it names no snapshot, which is written VOLUME@SNAPSHOT"));
        };
        Self::of(&DatasetName::parse(volume)?, snapshot)
    }

    /// A snapshot of a volume.
    pub(crate) fn of(volume: &DatasetName, snapshot: &str) -> Result<Self> {
        let bad = |reason| Error::BadName { name: snapshot.to_owned(), reason };
        if snapshot.len() > NAME_BYTES_MAX {
            return Err(bad("it is longer than 255 bytes"));
        }
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
    let Some(first) = part.chars().next() else { return Err("a part of it is empty") };
    if !first.is_ascii_alphanumeric() {
        return Err("it begins with something else than a letter or digit");
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !part.chars().all(allowed) {
        return Err("it has something else than letters, digits, `-`, `_` and `.`");
    }
    Ok(())
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
        assert!(DatasetName::parse(&"a".repeat(256)).is_err());
    }
}
