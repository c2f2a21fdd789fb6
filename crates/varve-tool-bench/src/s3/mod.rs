//! A client of S3 for loads: a connection with one request at a time, bodies, and signatures.

mod body;
mod connection;
mod signer;

pub use body::Bodies;
pub use connection::{ResponseHead, S3Connection};
pub use signer::{Head, Signer, encoded, sha256};
