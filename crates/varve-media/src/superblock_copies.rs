//! Reading the four copies of a superblock, and bringing damaged ones up again.

use crate::disk::{Disk, Persist};
use crate::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_STRIDE, Superblock, SuperblockFault, decode_former, decode_making,
    decode_superblock, encode_superblock, superblock_claim,
};
use crate::making::copies_within;
use crate::{Error, Result};

/// As [`read_any_superblock`], of a drive of a pool without redundancy; no medium of this crate serves others.
pub(crate) async fn read_superblock(meta: &dyn Disk) -> Result<Superblock> {
    without_redundancy(read_any_superblock(meta).await?, meta.path())
}

/// Refuses the superblock of a drive of a redundant pool.
pub(crate) fn without_redundancy(superblock: Superblock, path: &str) -> Result<Superblock> {
    if superblock.redundant.is_some() {
        let (path, number) = (path.to_owned(), superblock.drive_index);
        return Err(Error::RedundantDrive { path, number, pool: superblock.pool });
    }
    Ok(superblock)
}

/// The superblock on which at least two copies agree; the highest revision of those.
pub(crate) async fn read_any_superblock(meta: &dyn Disk) -> Result<Superblock> {
    let path = || meta.path().to_owned();
    let (mut valid, mut reasons, mut marked) = (Vec::new(), Vec::new(), false);
    let (mut unfinished, mut former) = (None, None);
    for offset in copies_within(meta) {
        let copy = offset / SUPERBLOCK_STRIDE;
        let bytes = match meta.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                marked = true;
                reasons.push(error.to_string());
                continue;
            }
        };
        unfinished = unfinished.or(decode_making(&bytes));
        former = former.or(decode_former(&bytes));
        marked |= superblock_claim(&bytes).is_some();
        match decode_superblock(&bytes) {
            Ok(superblock) => valid.push(superblock),
            Err(SuperblockFault::Features(flags)) => {
                return Err(Error::Unsupported { path: path(), flags });
            }
            Err(fault) => reasons.push(format!("copy {copy}: {fault}")),
        }
    }
    let agreed = |one: &&Superblock| valid.iter().filter(|other| other == one).count() >= 2;
    let best = valid.iter().filter(agreed).max_by_key(|superblock| superblock.revision);
    if let (None, Some(pool)) = (best, unfinished) {
        return Err(Error::Unfinished { path: path(), pool });
    }
    if let (None, Some(pool)) = (best, former) {
        return Err(Error::FormerDrive { path: path(), pool });
    }
    if !marked {
        return Err(Error::NoPool { path: path() });
    }
    if !reasons.is_empty() {
        tracing::warn!(path = meta.path(), reasons = reasons.join("; "), "superblock copies lost");
    }
    best.cloned().ok_or_else(|| Error::Corrupt {
        what: "superblock",
        path: path(),
        reason: format!("fewer than two of four copies agree: {}", reasons.join("; ")),
    })
}

/// Writes the copies again that differ from what was agreed on. For the owner only; at least two copies stay untouched.
pub(crate) async fn heal_superblock(meta: &dyn Disk, agreed: &Superblock) {
    let good = encode_superblock(agreed);
    for offset in copies_within(meta) {
        let copy = offset / SUPERBLOCK_STRIDE;
        if meta.read(offset, SUPERBLOCK_BYTES).await.is_ok_and(|bytes| *bytes == *good) {
            continue;
        }
        let healed = meta.write(offset, good.clone(), Persist::Durable).await;
        tracing::warn!(
            path = meta.path(),
            copy,
            healed = healed.is_ok(),
            "superblock copy rewritten"
        );
    }
}
