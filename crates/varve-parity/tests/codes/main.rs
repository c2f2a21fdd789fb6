//! Goal: parity is ISA-L's, and any k strips give the others, by every kernel of this processor. Method: shapes,
//! lengths and losses in full where there are few of them, against ISA-L's own bytes and another implementation.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod isa_l;
mod kernels;
mod losses;
mod stripe;
