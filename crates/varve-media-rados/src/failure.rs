//! Refusals of RADOS as errors of media.

use varve_media::Error;

use crate::objects::{Objects, Refusal};

/// What an operation on `object` was refused with. Being shut out means that somebody else took over.
pub(crate) fn of(
    operation: &'static str,
    objects: &dyn Objects,
    object: &str,
    offset: u64,
    len: usize,
    refusal: Refusal,
) -> Error {
    let path = format!("rados:{}/{object}", objects.pool());
    match refusal {
        Refusal::SHUT_OUT => Error::Fenced,
        Refusal::NO_SPACE | Refusal::QUOTA => Error::NoSpace { path },
        refusal => {
            let reason = refusal.to_string();
            Error::Io { operation, path, offset, len: len as u64, reason }
        }
    }
}
