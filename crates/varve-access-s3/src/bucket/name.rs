//! Names that buckets may have, for requests and for operators.

use s3s::path;

use crate::answers::error::{Error, Result};

/// Whether a bucket may have this name: as the protocol library checks names, and no dot beside a hyphen, as in host
/// names.
pub(crate) fn is_bucket_name(name: &str) -> bool {
    path::check_bucket_name(name) && !name.contains(".-") && !name.contains("-.")
}

/// Refuses a name that no bucket may have.
pub(crate) fn check_bucket_name(name: &str) -> Result<()> {
    if is_bucket_name(name) {
        return Ok(());
    }
    let what = format!(
        "invalid bucket name `{name}`: 3 to 63 lower-case letters, digits, dots and hyphens, as in host names"
    );
    Err(Error::Invalid { what })
}
