//! Reading the four copies of a superblock, and bringing damaged ones up again.

use crate::disk::{Disk, Persist};
use crate::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE, Superblock, SuperblockFault,
    decode_superblock, encode_superblock, has_superblock_magic,
};
use crate::{Error, Result};

/// The superblock on which at least two copies agree; the highest revision of those.
pub(crate) async fn read_superblock(meta: &dyn Disk) -> Result<Superblock> {
    let path = || meta.path().to_owned();
    let (mut valid, mut reasons, mut marked) = (Vec::new(), Vec::new(), false);
    for copy in 0..SUPERBLOCK_COPIES {
        let offset = copy * SUPERBLOCK_STRIDE;
        if offset + SUPERBLOCK_BYTES as u64 > meta.size() {
            break;
        }
        let bytes = match meta.read(offset, SUPERBLOCK_BYTES).await {
            Ok(bytes) => bytes,
            Err(error) => {
                marked = true;
                reasons.push(error.to_string());
                continue;
            }
        };
        marked |= has_superblock_magic(&bytes);
        match decode_superblock(&bytes) {
            Ok(superblock) => valid.push(superblock),
            Err(SuperblockFault::Features(flags)) => {
                return Err(Error::Unsupported { path: path(), flags });
            }
            Err(fault) => reasons.push(format!("copy {copy}: {fault}")),
        }
    }
    if !marked {
        return Err(Error::NoPool { path: path() });
    }
    let agreed = |one: &&Superblock| valid.iter().filter(|other| other == one).count() >= 2;
    let best = valid.iter().filter(agreed).max_by_key(|superblock| superblock.revision);
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
    for copy in 0..SUPERBLOCK_COPIES {
        let offset = copy * SUPERBLOCK_STRIDE;
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
