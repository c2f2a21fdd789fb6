//! Amounts of bytes: positions, sizes and ranges are three different things; and numbers of blocks, which are positions
//! in another unit. Nothing but the functions here converts one into the other.

use std::fmt;
use std::ops::{Add, AddAssign, Range, Sub};

use serde::{Deserialize, Serialize};

use crate::limits::BLOCK_SIZE_DEFAULT;

/// Bytes of a block.
const BLOCK: u64 = BLOCK_SIZE_DEFAULT as u64;

const _: () = assert!(BLOCK.is_power_of_two(), "a block begins where its number says");

/// A position in a stream, in bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteOffset(pub u64);

/// The number of a block of 4 KiB ([`BLOCK_SIZE_DEFAULT`]) of a stream, volume or map: block 0 begins at byte 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockIndex(pub u64);

/// A number of bytes. Displays with a binary unit when it is a whole number of one.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ByteCount(pub u64);

impl ByteOffset {
    /// The block that the byte belongs to.
    #[must_use]
    #[inline]
    pub const fn block(self) -> BlockIndex {
        BlockIndex(self.0 / BLOCK)
    }

    /// The first block that begins here or behind.
    #[must_use]
    #[inline]
    pub const fn next_block(self) -> BlockIndex {
        BlockIndex(self.0.div_ceil(BLOCK))
    }

    /// Bytes from the begin of its block to it: less than a block.
    #[must_use]
    #[inline]
    pub const fn within_block(self) -> usize {
        const { assert!(BLOCK <= u32::MAX as u64) };
        (self.0 % BLOCK) as usize
    }

    /// The position so many bytes further on; `None` when it does not fit 64 bits.
    #[must_use]
    #[inline]
    pub const fn checked_add(self, bytes: u64) -> Option<Self> {
        match self.0.checked_add(bytes) {
            Some(offset) => Some(Self(offset)),
            None => None,
        }
    }
}

impl BlockIndex {
    /// The first block.
    pub const ZERO: Self = Self(0);
    /// Behind every block: `block .. MAX` is all of a stream from a block on.
    pub const MAX: Self = Self(u64::MAX);
    /// Every block.
    pub const ALL: Range<Self> = Self::ZERO..Self::MAX;

    /// Where the block begins.
    ///
    /// # Panics
    /// When that does not fit 64 bits: a number from outside is compared with the bounds of its stream first.
    #[must_use]
    #[inline]
    pub const fn offset(self) -> ByteOffset {
        ByteOffset(self.0 * BLOCK)
    }

    /// The block so many further on; `None` when its number does not fit 64 bits.
    #[must_use]
    #[inline]
    pub const fn checked_add(self, blocks: u64) -> Option<Self> {
        match self.0.checked_add(blocks) {
            Some(block) => Some(Self(block)),
            None => None,
        }
    }

    /// The first block of the aligned group of `blocks`, a power of two, that this one belongs to.
    #[must_use]
    #[inline]
    pub const fn group_start(self, blocks: u64) -> Self {
        debug_assert!(blocks.is_power_of_two());
        Self(self.0 & !(blocks - 1))
    }

    /// The first block behind that group.
    #[must_use]
    #[inline]
    pub const fn group_end(self, blocks: u64) -> Self {
        debug_assert!(blocks.is_power_of_two());
        Self((self.0 | (blocks - 1)) + 1)
    }

    /// Whether a group of `blocks`, a power of two, begins with this one.
    #[must_use]
    #[inline]
    pub const fn begins_group(self, blocks: u64) -> bool {
        self.group_start(blocks).0 == self.0
    }

    /// This block and those behind it, before `end`.
    #[inline]
    pub fn until(self, end: Self) -> impl Iterator<Item = Self> + Clone {
        (self.0..end.0).map(Self)
    }
}

impl Add<u64> for BlockIndex {
    type Output = Self;

    /// The block so many further on, which there is: numbers from outside are added by [`Self::checked_add`].
    #[inline]
    fn add(self, blocks: u64) -> Self {
        Self(self.0 + blocks)
    }
}

impl AddAssign<u64> for BlockIndex {
    #[inline]
    fn add_assign(&mut self, blocks: u64) {
        self.0 += blocks;
    }
}

impl Sub for BlockIndex {
    type Output = u64;

    /// Blocks from `first` to this one, which is not before it.
    #[inline]
    fn sub(self, first: Self) -> u64 {
        self.0 - first.0
    }
}

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes `start .. end` of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ByteRange {
    /// First byte.
    pub start: u64,
    /// First byte after the range.
    pub end: u64,
}

impl ByteRange {
    /// `len` bytes from `offset`; `None` when the end does not fit 64 bits.
    #[must_use]
    pub const fn checked(offset: u64, len: u64) -> Option<Self> {
        match offset.checked_add(len) {
            Some(end) => Some(Self { start: offset, end }),
            None => None,
        }
    }

    /// Blocks of which a byte lies in the range.
    #[must_use]
    #[inline]
    pub const fn touched_blocks(&self) -> Range<BlockIndex> {
        ByteOffset(self.start).block()..ByteOffset(self.end).next_block()
    }

    /// Length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether the range holds no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

const UNITS: [(&str, u32); 6] =
    [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, shift) in UNITS {
            let unit = 1u64 << shift;
            if self.0 >= unit {
                return if self.0.is_multiple_of(unit) {
                    write!(f, "{} {name}", self.0 >> shift)
                } else {
                    let tenths = u128::from(self.0) * 10 / u128::from(unit);
                    write!(f, "{}.{} {name}", tenths / 10, tenths % 10)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl ByteCount {
    /// The same number in the largest unit that it is a whole number of: nothing is rounded.
    #[must_use]
    pub fn exact(self) -> impl fmt::Display {
        let unit = UNITS.iter().find(|(_, shift)| self.0 > 0 && self.0.is_multiple_of(1 << shift));
        let (name, shift) = unit.copied().unwrap_or(("B", 0));
        format!("{} {name}", self.0 >> shift)
    }
}

/// Reads a size such as `20GiB`, `20G`, `1.5TiB`, `4 KiB`, `512` or `512B`. `G`, `Gi` and `GiB` are 2^30 bytes, `GB` is
/// 10^9; so for K, M, T, P and E.
///
/// # Errors
/// A sentence fragment that says what is wrong.
pub fn parse_size(text: &str) -> Result<ByteCount, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| digits.chars().all(|c| c.is_ascii_digit()) && !digits.is_empty();
    if !is_number(whole) || !is_number(fraction) {
        return Err(format!("invalid size `{text}`: write a number and a unit, such as 20GiB"));
    }
    let factor = unit_bytes(unit).ok_or_else(|| {
        format!(
            "unknown unit `{unit}` in size `{text}`: use B, KiB, MiB, GiB, TiB or PiB (K, M, G, T, P for short), or KB, MB, GB, TB, PB for powers of 1000"
        )
    })?;
    let fraction = fraction.trim_end_matches('0');
    let too_large = || format!("size `{text}` is too large");
    let not_whole = || format!("size `{text}` is not a whole number of bytes: use a smaller unit");
    let divisor = u32::try_from(fraction.len()).ok().and_then(|len| 10u128.checked_pow(len));
    let divisor = divisor.ok_or_else(not_whole)?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| not_whole())? };
    let parts = factor.checked_mul(parts).ok_or_else(not_whole)?;
    if !parts.is_multiple_of(divisor) {
        return Err(not_whole());
    }
    let whole: u128 = whole.parse().map_err(|_| too_large())?;
    let bytes = whole.checked_mul(factor).and_then(|bytes| bytes.checked_add(parts / divisor));
    bytes.and_then(|bytes| u64::try_from(bytes).ok()).map(ByteCount).ok_or_else(too_large)
}

/// Bytes of a unit, whatever its case; `None` when there is no such unit.
fn unit_bytes(unit: &str) -> Option<u128> {
    if unit.is_empty() || unit.eq_ignore_ascii_case("B") {
        return Some(1);
    }
    let (prefix, rest) = unit.split_at_checked(1)?;
    let power = "KMGTPE".find(&prefix.to_ascii_uppercase())?;
    let power = u32::try_from(power + 1).ok()?;
    match rest.to_ascii_lowercase().as_str() {
        "" | "i" | "ib" => Some(1u128 << (10 * power)),
        "b" => Some(1000u128.pow(power)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_bytes_are_converted_without_loss() {
        for (offset, block, next, within) in [
            (0, 0, 0, 0),
            (1, 0, 1, 1),
            (4095, 0, 1, 4095),
            (4096, 1, 1, 0),
            (u64::MAX, (1 << 52) - 1, 1 << 52, 4095),
        ] {
            let offset = ByteOffset(offset);
            assert_eq!(
                (offset.block(), offset.next_block()),
                (BlockIndex(block), BlockIndex(next))
            );
            assert_eq!(offset.within_block(), within);
            assert_eq!(offset.block().offset().checked_add(within as u64), Some(offset));
        }
        let range = ByteRange { start: 4095, end: 4097 };
        assert_eq!(range.touched_blocks(), BlockIndex(0)..BlockIndex(2));
    }

    #[test]
    fn numbers_beyond_64_bits_are_none() {
        assert_eq!(BlockIndex(1).checked_add(u64::MAX), None);
        assert_eq!(BlockIndex::MAX.checked_add(0), Some(BlockIndex::MAX));
        assert_eq!(ByteOffset(1).checked_add(u64::MAX), None);
    }

    #[test]
    fn groups_of_blocks_are_aligned() {
        for (block, start, end) in [(0, 0, 512), (511, 0, 512), (512, 512, 1024), (1023, 512, 1024)]
        {
            let block = BlockIndex(block);
            assert_eq!((block.group_start(512).0, block.group_end(512).0), (start, end));
            assert_eq!(block.begins_group(512), block.0 == start);
        }
        let all: Vec<u64> = BlockIndex(3).until(BlockIndex(6)).map(|block| block.0).collect();
        assert_eq!(all, [3, 4, 5]);
        assert_eq!(BlockIndex(6).until(BlockIndex(3)).count(), 0);
    }

    #[test]
    fn sizes_round_trip_through_text() {
        for text in ["20 GiB", "4 KiB", "512 B", "1 TiB"] {
            assert_eq!(parse_size(text).unwrap().to_string(), text);
        }
        assert_eq!(ByteCount(1536).to_string(), "1.5 KiB");
    }

    #[test]
    fn units_are_binary_unless_they_are_powers_of_1000() {
        for (text, bytes) in [
            ("20G", 20 << 30),
            ("20Gi", 20 << 30),
            ("20gib", 20 << 30),
            ("20GB", 20_000_000_000),
            ("4k", 4096),
            ("4KB", 4000),
            ("1.5TiB", 3 << 39),
            ("1.50 T", 3 << 39),
            ("0.5KiB", 512),
            ("1.5KB", 1500),
            ("4095", 4095),
            ("15.5E", 31 << 59),
        ] {
            assert_eq!(parse_size(text), Ok(ByteCount(bytes)), "{text}");
        }
    }

    #[test]
    fn exact_sizes_are_not_rounded() {
        for (bytes, text) in [
            (0, "0 B"),
            (4095, "4095 B"),
            (1536, "1536 B"),
            (3 << 29, "1536 MiB"),
            (1 << 40, "1 TiB"),
        ] {
            assert_eq!(ByteCount(bytes).exact().to_string(), text);
        }
    }

    #[test]
    fn bad_sizes_say_why() {
        for unit in ["20Gx", "20GiBi", "20Q", "20iB", "20ä"] {
            assert!(parse_size(unit).unwrap_err().contains("unknown unit"), "{unit}");
        }
        for number in ["GiB", "", ".5GiB", "1.GiB", "1.2.3G", "-5GiB"] {
            assert!(parse_size(number).unwrap_err().contains("invalid size"), "{number}");
        }
        for fraction in ["1.1GiB", "0.0000000000000000000000000000000000000000001G", "0.5"] {
            assert!(parse_size(fraction).unwrap_err().contains("whole number"), "{fraction}");
        }
        for large in ["99999999999EiB", "16E", "99999999999999999999999999999999999999999"] {
            assert!(parse_size(large).unwrap_err().contains("too large"), "{large}");
        }
    }
}
