//! What is drawn at random, from the system: identities and keys.

use varve_client::{Failure, Result};
use varve_types::PoolId;

/// A new identity.
pub(crate) fn random_id() -> Result<PoolId> {
    random_bytes().map(PoolId)
}

/// Random bytes of the system, at most 256, which it gives as a whole.
pub(crate) fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(filled) if filled == N => Ok(bytes),
        Ok(_) => Err(Failure::new("the system gave too few random bytes")),
        Err(error) => Err(Failure::new(format!("random bytes of the system: {error}"))),
    }
}
