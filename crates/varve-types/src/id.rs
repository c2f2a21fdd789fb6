//! Identifiers: fixed-width numbers that are never reused unless their doc says so.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest value of a 48-bit id.
const MAX_48: u64 = (1 << 48) - 1;

macro_rules! id48 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// The largest value.
            pub const MAX: Self = Self(MAX_48);
            /// The smallest value.
            pub const ZERO: Self = Self(0);

            /// Wraps a value of at most 48 bits.
            ///
            /// # Panics
            /// When the value needs more than 48 bits: at 100,000 a second that takes 89 years.
            #[must_use]
            pub const fn new(value: u64) -> Self {
                assert!(value <= MAX_48, "id does not fit 48 bits");
                Self(value)
            }

            /// The value, if it fits 48 bits. For bytes from media or network.
            #[must_use]
            pub const fn from_untrusted(value: u64) -> Option<Self> {
                if value <= MAX_48 { Some(Self(value)) } else { None }
            }

            /// The plain number.
            #[must_use]
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The next id.
            ///
            /// # Panics
            /// When the id space is used up.
            #[must_use]
            pub const fn next(self) -> Self {
                Self::new(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

id48! {
    /// A stored piece of data or a metadata page; unique within its home shard, never reused.
    ChunkId
}
id48! {
    /// A byte-addressable thing: a volume or a snapshot of one. Never reused in a pool.
    StreamId
}
id48! {
    /// Position in a shard's order of writes, given at admission. Never reused.
    WriteSeq
}
id48! {
    /// Counts the segments a shard ever opened; tells the contents of a reused slot apart.
    Generation
}

/// One owner's slice of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ShardId(pub u16);

impl ShardId {
    /// Most shards of a pool: ids are 12 bits wide in map slots.
    pub const COUNT_MAX: u16 = 1 << 12;
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A part of a pool with a catalogue, shards and claims of its own: what one node serves. Most pools have one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CellId(pub u16);

impl CellId {
    /// The one that every pool has.
    pub const FIRST: Self = Self(0);
    /// Most cells of a pool: some for each of the nodes that it can have.
    pub const COUNT_MAX: u16 = 256;
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A segment slot of the pool; reused with another [`Generation`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SegmentNumber(pub u32);

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of a snapshot cut of a stream; 0 before the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CutNumber(pub u32);

/// Random identity of a pool, drawn when it is created.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PoolId(pub [u8; 16]);

impl PoolId {
    /// The identity that a cell of this pool goes by: the first one by the pool's own.
    #[must_use]
    pub const fn of_cell(self, cell: CellId) -> Self {
        Self(u128::from_be_bytes(self.0).wrapping_add(cell.0 as u128).to_be_bytes())
    }

    /// The pool of which this is the identity of a cell.
    #[must_use]
    pub const fn whole(self, cell: CellId) -> Self {
        Self(u128::from_be_bytes(self.0).wrapping_sub(cell.0 as u128).to_be_bytes())
    }
}

impl std::str::FromStr for PoolId {
    type Err = NotAnIdentity;

    /// Reads what [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, NotAnIdentity> {
        let digits: Vec<_> = text.bytes().filter(|byte| *byte != b'-').collect();
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NotAnIdentity)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotAnIdentity)?;
        }
        let id = Self(id);
        if id.to_string() == text { Ok(id) } else { Err(NotAnIdentity) }
    }
}

/// A text is not the identity of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAnIdentity;

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl Serialize for PoolId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PoolId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|_| {
            serde::de::Error::custom(format!("`{text}` is not the identity of a pool"))
        })
    }
}

impl fmt::Debug for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untrusted_values_over_48_bits_are_refused() {
        assert_eq!(ChunkId::from_untrusted(1 << 48), None);
        assert_eq!(ChunkId::from_untrusted(MAX_48), Some(ChunkId::MAX));
    }

    #[test]
    fn pool_id_prints_like_a_uuid() {
        let id = PoolId([0x12; 16]);
        assert_eq!(id.to_string(), "12121212-1212-1212-1212-121212121212");
    }
}
