//! A client of S3 for loads: a connection with one request at a time, and signatures.

mod connection;
mod signer;

pub use connection::{Answer, Connection};
pub use signer::{Head, Signer, encoded, sha256};
