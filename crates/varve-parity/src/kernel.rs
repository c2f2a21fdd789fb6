//! Kernels: the same sums of strips by the instructions that a processor has. The fastest is chosen when the program
//! runs.
//!
//! 1. KERNEL-1: all kernels compute the same bytes, those of [`scalar`]; tests compare them.
//! 2. KERNEL-2: a kernel whose instructions the processor lacks is never entered: each call looks, which is a load and
//!    a comparison.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod gfni_avx2;
#[cfg(target_arch = "x86_64")]
mod gfni_avx512;
mod scalar;
mod sum;
#[cfg(target_arch = "x86_64")]
mod vector;

use std::fmt;

pub(crate) use sum::Sum;

/// Instructions that strips are computed with.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kernel {
    /// Two table lookups for each byte: any processor.
    Scalar,
    /// Two shuffles of AVX2 for 32 bytes.
    Avx2,
    /// One affine transformation of GFNI for 32 bytes.
    GfniAvx2,
    /// One affine transformation of GFNI for 64 bytes.
    GfniAvx512,
}

impl Kernel {
    /// All, the slowest first.
    const ALL: [Self; 4] = [Self::Scalar, Self::Avx2, Self::GfniAvx2, Self::GfniAvx512];

    /// Those of this processor, the slowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|kernel| kernel.is_available()).collect()
    }

    /// The fastest of this processor.
    #[must_use]
    pub fn fastest() -> Self {
        Self::available().pop().unwrap_or(Self::Scalar)
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        match self {
            Self::Scalar => true,
            Self::Avx2 => has!("avx2"),
            Self::GfniAvx2 => has!("avx2") && has!("gfni"),
            Self::GfniAvx512 => has!("avx512f") && has!("avx512bw") && has!("gfni"),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        self == Self::Scalar
    }

    /// Computes sums over sources. All strips have one length.
    ///
    /// # Panics
    /// When lengths or numbers of factors differ, or the processor lacks the kernel.
    pub(crate) fn compute(self, sources: &[&[u8]], sums: &mut [Sum<'_>]) {
        let len = sums.first().map_or(0, |sum| sum.output.len());
        assert!(
            sources.iter().all(|source| source.len() == len)
                && sums.iter().all(|sum| sum.output.len() == len)
                && sums.iter().all(|sum| sum.factors.len() == sources.len()),
            "strips of one length, and a factor for each source"
        );
        // KERNEL-2
        assert!(self.is_available(), "this processor has no {self}");
        if let [source] = sources
            && sums.iter().all(|sum| sum.factors == [1])
        {
            return sums.iter_mut().for_each(|sum| sum.output.copy_from_slice(source));
        }
        // KERNEL-1
        self.enter(sources, sums);
    }

    #[cfg(target_arch = "x86_64")]
    fn enter(self, sources: &[&[u8]], sums: &mut [Sum<'_>]) {
        match self {
            Self::Scalar => scalar::compute(sources, sums),
            Self::Avx2 => avx2::compute(sources, sums),
            Self::GfniAvx2 => gfni_avx2::compute(sources, sums),
            Self::GfniAvx512 => gfni_avx512::compute(sources, sums),
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn enter(self, sources: &[&[u8]], sums: &mut [Sum<'_>]) {
        scalar::compute(sources, sums);
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Scalar => "scalar",
            Self::Avx2 => "avx2",
            Self::GfniAvx2 => "gfni-avx2",
            Self::GfniAvx512 => "gfni-avx512",
        })
    }
}
