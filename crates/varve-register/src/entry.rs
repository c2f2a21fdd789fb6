//! What the register keeps of a name.

use std::fmt;

use varve_types::{CellId, PoolId};

/// What a name names. The same text may name one of each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NameKind {
    /// A volume, with its snapshots.
    Volume,
    /// A bucket.
    Bucket,
}

/// A name, in full: that of a volume with its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name {
    /// What it names.
    pub sort: NameKind,
    /// Its text, which the layer that makes names has checked.
    pub full: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = match self.sort {
            NameKind::Volume => "volume",
            NameKind::Bucket => "bucket",
        };
        write!(f, "{sort} `{}`", self.full)
    }
}

/// Tells one entering of a name from every other one: random, drawn for it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp(pub u128);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stamp({self})")
    }
}

/// Where a name is, if it is anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Whose register it is in.
    pub pool: PoolId,
    /// The cell that has it, or may make it.
    pub cell: CellId,
    /// Of this entering.
    pub stamp: Stamp,
}
