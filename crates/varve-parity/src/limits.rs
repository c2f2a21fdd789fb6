//! Bounds of erasure codes.

/// Most strips of a code, data and parity together. Pools have 16 at most; the others are for comparisons.
pub const STRIPS_MAX: usize = 32;

// The Cauchy matrix inverts sums of two indexes, which are bytes.
const _: () = assert!(STRIPS_MAX <= 256);
