//! What blocks hold in the simulator, and how a write is laid over it.

use std::ops::Range;
use std::rc::Rc;

use varve_engine::BLOCK_BYTES;

/// Contents of one block.
#[derive(Clone, Debug)]
pub(crate) enum BlockContent {
    /// Zeros.
    Zero,
    /// These bytes.
    Data(Rc<[u8]>),
}

impl BlockContent {
    /// Whether the block reads as zeros.
    #[must_use]
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Zero => true,
            Self::Data(data) => data.iter().all(|byte| *byte == 0),
        }
    }

    /// The block with `part` written at `within`.
    #[must_use]
    pub(crate) fn with(&self, within: usize, part: &[u8]) -> Self {
        self.with_sized(BLOCK_BYTES, within, part)
    }

    /// These contents, of `len` bytes, with `part` written at `within`.
    #[must_use]
    pub(crate) fn with_sized(&self, len: usize, within: usize, part: &[u8]) -> Self {
        let mut bytes = vec![0; len];
        if let Self::Data(data) = self {
            bytes.copy_from_slice(data);
        }
        bytes[within..within + part.len()].copy_from_slice(part);
        Self::Data(bytes.into())
    }

    /// The contents of a part.
    #[must_use]
    pub(crate) fn slice(&self, part: Range<usize>) -> Self {
        match self {
            Self::Zero => Self::Zero,
            Self::Data(data) => Self::Data(data[part].into()),
        }
    }

    /// Whether `bytes` stand at `at`.
    #[must_use]
    pub(crate) fn is_at(&self, at: usize, bytes: &[u8]) -> bool {
        match self {
            Self::Zero => bytes.iter().all(|byte| *byte == 0),
            Self::Data(data) => data[at..at + bytes.len()] == *bytes,
        }
    }

    /// A few words on what it is, for messages.
    #[must_use]
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Zero => "zeros".to_owned(),
            Self::Data(data) => describe(data),
        }
    }
}

impl PartialEq for BlockContent {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Zero, Self::Zero) => true,
            (Self::Data(a), Self::Data(b)) => Rc::ptr_eq(a, b) || a == b,
            (Self::Zero, Self::Data(data)) | (Self::Data(data), Self::Zero) => {
                data.iter().all(|byte| *byte == 0)
            }
        }
    }
}

/// First bytes of a block, and where they stop repeating.
#[must_use]
pub(crate) fn describe(bytes: &[u8]) -> String {
    let word = |at: usize| {
        let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
        part.map_or(0, u64::from_le_bytes)
    };
    format!(
        "{:#x}/{:#x}/{:#x}",
        word(0),
        word(bytes.len() / 2),
        word(bytes.len().saturating_sub(8))
    )
}

/// Blocks that are like others hold one of so many things.
const KINDS: u64 = 24;

/// What a block is to hold.
#[derive(Clone, Copy)]
pub(crate) struct Likeness {
    /// It is like other blocks.
    pub(crate) is_duplicate: bool,
    /// Half of it is one byte.
    pub(crate) is_compressible: bool,
}

impl Likeness {
    /// It cannot be reduced.
    pub(crate) const NONE: Self = Self { is_duplicate: false, is_compressible: false };
}

/// Fills blocks with what operation `stamp` writes at `offset`, each as like others as it is said to be.
pub(crate) fn fill_blocks(
    bytes: &mut [u8],
    stamp: u64,
    offset: u64,
    mut likeness: impl FnMut() -> Likeness,
) {
    for (index, block) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
        fill_like(block, stamp, offset + (index * BLOCK_BYTES) as u64, likeness());
    }
}

/// Fills `bytes` with what operation `stamp` writes at `offset`: every block of every operation differs, but for
/// duplicates.
fn fill_like(bytes: &mut [u8], stamp: u64, offset: u64, likeness: Likeness) {
    if likeness.is_duplicate {
        fill(bytes, 1 + (stamp ^ (offset / 4096)) % KINDS, 0);
    } else {
        fill(bytes, stamp, offset);
    }
    if likeness.is_compressible {
        let half = bytes.len() / 2;
        bytes[half..].fill(0x5C);
    }
}

/// Fills `bytes` with what operation `stamp` writes: every block and every operation differs.
pub(crate) fn fill(bytes: &mut [u8], stamp: u64, offset: u64) {
    let base =
        stamp.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    let mut at = base | 1;
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&at.to_le_bytes());
        at = at.wrapping_add(0x0101_0101_0101_0101);
    }
    let rest = words.into_remainder();
    let len = rest.len();
    rest.copy_from_slice(&at.to_le_bytes()[..len]);
}
