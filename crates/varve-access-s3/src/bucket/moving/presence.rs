//! Whether a bucket is where clients use it (BUCKET-MOVING-1). Called wherever a client names one.

use varve_object::Bucket;

/// Refuses to serve clients what is not here (BUCKET-MOVING-1).
pub(crate) fn check_here(bucket: &Bucket) -> varve_object::Result<()> {
    match &bucket.moves {
        Some(moves) if !moves.is_here() => {
            let (name, moves) = (bucket.name.clone(), moves.clone());
            Err(varve_object::Error::Moves { name, moves })
        }
        _ => Ok(()),
    }
}
