//! How many strips of data and of parity there are, and which code that means.

use std::fmt;

use crate::error::{Error, Result};
use crate::limits::STRIPS_MAX;

/// Numbers of strips of data and of parity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CodeShape {
    data: usize,
    parity: usize,
}

/// How parity follows from data. The shape decides, so nobody has to choose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CodeKind {
    /// One data strip: parity is copies of it.
    Copies,
    /// One parity strip: the sum of all data strips.
    Xor,
    /// Two parity strips, P and Q of RAID-6 as ISA-L's `pq_gen` computes them: the sum, and the sum of strip i times
    /// 2 to the power of i.
    PowersOfTwo,
    /// The matrix of ISA-L's `gf_gen_cauchy1_matrix`.
    Cauchy,
}

impl CodeShape {
    /// The shape with so many strips of each.
    ///
    /// # Errors
    /// When there is none of one of them, or more than [`STRIPS_MAX`] in all.
    pub fn new(data: usize, parity: usize) -> Result<Self> {
        let strips = data.saturating_add(parity);
        if data == 0 || parity == 0 || strips > STRIPS_MAX {
            return Err(Error::Shape { data, parity });
        }
        Ok(Self { data, parity })
    }

    /// Number of data strips, k. Their indexes come first.
    #[must_use]
    pub fn data(self) -> usize {
        self.data
    }

    /// Number of parity strips, m: how many strips may be lost.
    #[must_use]
    pub fn parity(self) -> usize {
        self.parity
    }

    /// Number of all strips.
    #[must_use]
    pub fn strips(self) -> usize {
        self.data + self.parity
    }

    /// The code for this shape.
    #[must_use]
    pub fn kind(self) -> CodeKind {
        match (self.data, self.parity) {
            (1, _) => CodeKind::Copies,
            (_, 1) => CodeKind::Xor,
            (_, 2) => CodeKind::PowersOfTwo,
            _ => CodeKind::Cauchy,
        }
    }
}

impl fmt::Display for CodeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl fmt::Display for CodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Copies => "copies",
            Self::Xor => "xor",
            Self::PowersOfTwo => "p+q",
            Self::Cauchy => "cauchy",
        })
    }
}
