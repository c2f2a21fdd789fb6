//! How the data of a stream are reduced before they are stored.

use std::fmt;
use std::str::FromStr;

/// What reduction a stream wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reduction {
    /// Whether blocks that are stored already are stored again.
    pub dedup: Dedup,
    /// How blocks are compressed.
    pub compression: Compression,
}

impl Reduction {
    /// Nothing: blocks are stored as they are.
    pub const OFF: Self = Self { dedup: Dedup::Off, compression: Compression::Off };
}

impl Default for Reduction {
    /// What streams get that ask for nothing else: both give up early where there is nothing to gain.
    fn default() -> Self {
        Self { dedup: Dedup::default(), compression: Compression::default() }
    }
}

/// Whether equal blocks are stored once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Dedup {
    /// Every block is stored.
    Off,
    /// Where a sample of the blocks shows that it pays.
    #[default]
    Auto,
    /// Equal blocks are stored once.
    On,
}

impl Dedup {
    /// All settings, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::Auto, Self::On, Self::Off];

    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::On => "on",
        }
    }
}

impl fmt::Display for Dedup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A word that names no deduplication setting.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown dedup setting `{0}`: use auto, on or off")]
pub struct UnknownDedup(String);

impl FromStr for Dedup {
    type Err = UnknownDedup;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|dedup| dedup.word() == text);
        named.ok_or_else(|| UnknownDedup(text.to_owned()))
    }
}

/// How blocks are compressed, where that saves enough.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Compression {
    /// Not at all.
    Off,
    /// LZ4: fast.
    #[default]
    Lz4,
    /// Zstandard, at a level from 1 to 19: smaller, slower.
    Zstd(u8),
}

impl Compression {
    /// Level of Zstandard when none is named.
    pub const ZSTD_LEVEL_DEFAULT: u8 = 3;
    /// Highest level of Zstandard: higher ones need much more memory.
    pub const ZSTD_LEVEL_MAX: u8 = 19;
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// A word that names no compression.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("unknown compression `{0}`: use off, lz4, zstd or zstd:LEVEL with a level from 1 to 19")]
pub struct UnknownCompression(String);

impl FromStr for Compression {
    type Err = UnknownCompression;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownCompression(text.to_owned());
        match text.split_once(':') {
            None if text == "off" => Ok(Self::Off),
            None if text == "lz4" => Ok(Self::Lz4),
            None if text == "zstd" => Ok(Self::Zstd(Self::ZSTD_LEVEL_DEFAULT)),
            Some(("zstd", level)) => match level.parse() {
                Ok(level @ 1..=Self::ZSTD_LEVEL_MAX) => Ok(Self::Zstd(level)),
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dedup_settings_are_read_as_they_are_written() {
        for dedup in Dedup::ALL {
            assert_eq!(dedup.to_string().parse(), Ok(dedup));
        }
        for word in ["", "Auto", "true", "yes"] {
            assert!(word.parse::<Dedup>().is_err(), "{word}");
        }
    }

    #[test]
    fn compressions_are_read_as_they_are_written() {
        for compression in
            [Compression::Off, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)]
        {
            assert_eq!(compression.to_string().parse(), Ok(compression));
        }
        assert_eq!("zstd".parse(), Ok(Compression::Zstd(3)));
        for word in ["", "LZ4", "zstd:", "zstd:0", "zstd:20", "zstd:-1", "lz4:1", "gzip"] {
            assert!(word.parse::<Compression>().is_err(), "{word}");
        }
    }
}
