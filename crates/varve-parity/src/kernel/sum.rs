//! What kernels compute.

/// An output, and the factors of its sources.
pub(crate) struct Sum<'a> {
    pub(crate) output: &'a mut [u8],
    pub(crate) factors: Vec<u8>,
}
