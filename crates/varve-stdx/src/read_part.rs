//! Parts of what was read: reads return zeros by their number, and bytes where they lie.

use crate::buffer::BufSlice;

/// A part of what was read.
#[derive(Clone, Debug)]
pub enum ReadPart {
    /// That many zero bytes.
    Zero(usize),
    /// Bytes.
    Data(BufSlice),
}

impl ReadPart {
    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Zero(len) => *len,
            Self::Data(data) => data.len(),
        }
    }

    /// Whether it holds no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `len` bytes behind the first `skip`.
    ///
    /// # Panics
    /// When there are fewer.
    #[must_use]
    pub fn trimmed(self, skip: usize, len: usize) -> Self {
        match self {
            Self::Zero(whole) => {
                assert!(skip + len <= whole, "the part of {whole} zeros has them");
                Self::Zero(len)
            }
            Self::Data(data) => Self::Data(data.slice(skip..skip + len)),
        }
    }
}
