//! Pools whose making was cut off: they are recognised, and made again by the same command.
//!
//! ```text
//!  nothing → marks on all drives → empty roots → superblocks, drive by drive, each in place of a mark
//! ```
//!
//! MAKING-1. A pool is whole once no drive has a mark: the last superblock of the last drive replaces the last one.
//!     Until then nobody opens it, so it holds no data.
//! MAKING-2. What may be made anew is a drive with a mark, or one whose superblocks are all of a pool that a mark on
//!     another of the drives names. A pool with damaged superblocks has no mark, and nor has anything else.
//! MAKING-3. A drive of a redundant pool that was opened once is of a whole pool, whatever marks say: such a pool opens
//!     without a drive, so it may hold data although one has a mark still. Each opening writes a later drive table than
//!     the one of the making.
//! MAKING-4. The mark of a drive that joins a pool names the drive, and vouches for superblocks of that drive alone.
//! MAKING-5. The mark of a drive that has left a pool vouches for nothing: other drives of that pool hold data.

use varve_types::PoolId;

use crate::contract::RootVersion;
use crate::disk::{Disk, Persist};
use crate::format::{
    SUPERBLOCK_BYTES, SUPERBLOCK_COPIES, SUPERBLOCK_STRIDE, decode_former, decode_making,
    decode_superblock, encode_former, encode_making, superblock_claim,
};
use crate::redundant_superblock::RedundantSuperblock;
use crate::superblock_copies::read_any_superblock;
use crate::{Error, Result};

/// Version of the drive table that a redundant pool is made with.
const TABLE_OF_MAKING: RootVersion = RootVersion(1);

/// What a drive writes as a whole, in bytes.
const SECTOR_BYTES: usize = 512;

/// What stands where superblocks do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SuperblockArea {
    /// No superblock and no mark.
    Nothing,
    /// Superblocks of a pool that marks on other drives call unfinished. Its marks vouch for it, so they go after it.
    Vouched,
    /// The mark of a drive that has left a pool, and nothing else.
    Former,
    /// A mark of a pool that is being made.
    Marked,
    /// A pool, whole or damaged.
    Pool,
}

/// Offsets of the copies that lie on a disk.
pub(crate) fn copies_within(disk: &dyn Disk) -> impl Iterator<Item = u64> + use<> {
    let size = disk.size();
    let offsets = (0..SUPERBLOCK_COPIES).map(|copy| copy * SUPERBLOCK_STRIDE);
    offsets.filter(move |offset| offset + SUPERBLOCK_BYTES as u64 <= size)
}

/// The pools that marks on a drive name: two where a making was cut off that came after another one.
async fn marks(meta: &dyn Disk) -> Result<Vec<PoolId>> {
    let mut pools = Vec::new();
    for offset in copies_within(meta) {
        pools.extend(decode_making(&meta.read(offset, SUPERBLOCK_BYTES).await?));
    }
    Ok(pools)
}

/// What a drive holds, where `unfinished` are the pools that marks on it and on the other drives name.
async fn look(meta: &dyn Disk, unfinished: &[PoolId]) -> Result<SuperblockArea> {
    let mut found = SuperblockArea::Nothing;
    for offset in copies_within(meta) {
        let bytes = meta.read(offset, SUPERBLOCK_BYTES).await?;
        if decode_former(&bytes).is_some() {
            if found == SuperblockArea::Nothing {
                found = SuperblockArea::Former; // MAKING-5
            }
            continue;
        }
        let redundant = decode_superblock(&bytes).ok();
        let redundant = redundant.as_ref().and_then(RedundantSuperblock::of_stored);
        let is_vouched = |pool: &PoolId| {
            let drive = redundant.as_ref().map(|it| PoolId(it.drive_id)); // MAKING-4
            unfinished.contains(pool) || drive.is_some_and(|it| unfinished.contains(&it))
        };
        match (decode_making(&bytes), superblock_claim(&bytes)) {
            (Some(_), _) => found = SuperblockArea::Marked,
            (None, Some(pool)) if !is_vouched(&pool) => return Ok(SuperblockArea::Pool), // MAKING-2
            (None, Some(_)) => {
                if let Some(superblock) = redundant
                    && was_opened(meta, &superblock).await?
                {
                    return Ok(SuperblockArea::Pool); // MAKING-3
                }
                match found {
                    SuperblockArea::Nothing | SuperblockArea::Former => {
                        found = SuperblockArea::Vouched;
                    }
                    SuperblockArea::Vouched | SuperblockArea::Marked | SuperblockArea::Pool => {}
                }
            }
            (None, None) => {}
        }
    }
    Ok(found)
}

/// Whether the pool of a drive with this superblock may have been opened: a side of its drive table is a later one than
/// that of the making, or nobody can say, as the table that was there before the superblock cannot be read.
///
/// # Errors
/// The disk's.
pub(crate) async fn was_opened(meta: &dyn Disk, superblock: &RedundantSuperblock) -> Result<bool> {
    let sides = superblock.drive_table().look(meta, superblock.pool).await?;
    let newest = sides.into_iter().flatten().map(|(version, _)| version).max();
    Ok(newest.is_none_or(|version| version > TABLE_OF_MAKING))
}

/// Whether what stands in the place of a superblock is one, a mark, or nothing.
///
/// # Errors
/// The disk's.
pub(crate) async fn is_of_making(meta: &dyn Disk, offset: u64) -> Result<bool> {
    let bytes = meta.read(offset, SUPERBLOCK_BYTES).await?;
    let is_mark = decode_making(&bytes).is_some() || decode_former(&bytes).is_some();
    let is_known = is_mark || superblock_claim(&bytes).is_some();
    // A superblock that was being taken away may have lost its beginning alone.
    let is_nothing =
        bytes.get(..SECTOR_BYTES).is_some_and(|first| first.iter().all(|byte| *byte == 0));
    Ok(is_known || is_nothing)
}

/// Marks all drives of a pool that is to be made, by the disks that hold their superblocks: until superblocks replace
/// the marks, there is no pool, and it can be made again (MAKING-1). Durable on return.
///
/// # Errors
/// [`Error::PoolExists`] when one is a drive of a whole pool, or of another one (MAKING-2), or the disks'.
pub async fn mark_new_drives(metas: &[&dyn Disk], pool: PoolId) -> Result<()> {
    let found = look_at_all(metas).await?;
    mark_all(metas, &found, pool).await
}

/// Marks all drives, on which `found` is now. Durable on return.
///
/// # Errors
/// The disks'.
pub(crate) async fn mark_all(
    metas: &[&dyn Disk],
    found: &[SuperblockArea],
    pool: PoolId,
) -> Result<()> {
    // What the marks of others vouch for goes before these.
    for last in [false, true] {
        for (meta, found) in metas.iter().zip(found) {
            if (*found == SuperblockArea::Marked) == last {
                mark(*meta, pool).await?;
            }
        }
    }
    Ok(())
}

/// Puts the marks of `pool` on a drive. Durable on return.
async fn mark(meta: &dyn Disk, pool: PoolId) -> Result<()> {
    for offset in copies_within(meta) {
        meta.write(offset, encode_making(pool), Persist::Durable).await?;
    }
    Ok(())
}

/// Marks a drive that has left a pool, in place of its superblocks: it is free for other use. Durable on return.
///
/// # Errors
/// The disk's: then some copies may have been written.
pub async fn mark_former_drive(meta: &dyn Disk, pool: PoolId) -> Result<()> {
    for offset in copies_within(meta) {
        meta.write(offset, encode_former(pool), Persist::Durable).await?;
    }
    Ok(())
}

/// Looks at all drives of a pool that is to be made: what each holds, in their order. Refuses the drives of a whole
/// pool, and of another one.
///
/// # Errors
/// [`Error::PoolExists`], or the disks'.
pub(crate) async fn look_at_all(metas: &[&dyn Disk]) -> Result<Vec<SuperblockArea>> {
    let (mut unfinished, mut whole) = (Vec::new(), 0);
    for meta in metas {
        unfinished.extend(marks(*meta).await?);
        whole += usize::from(read_any_superblock(*meta).await.is_ok());
    }
    let mut found = Vec::new();
    for meta in metas {
        let one = look(*meta, &unfinished).await?;
        // A mark that could not be replaced takes no pool away that can be opened.
        if one == SuperblockArea::Pool || one == SuperblockArea::Marked && whole == metas.len() {
            return Err(Error::PoolExists { path: meta.path().to_owned() });
        }
        found.push(one);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::finish;
    use crate::mem::MemDisk;

    #[test]
    fn what_others_wrote_in_the_place_of_a_superblock_is_not_of_a_making() {
        let disk = MemDisk::new("drive", 4 << 20);
        assert!(finish(is_of_making(&disk, SUPERBLOCK_STRIDE)).unwrap(), "nothing was written");
        finish(mark(&disk, PoolId([7; 16]))).unwrap();
        for offset in copies_within(&disk) {
            assert!(finish(is_of_making(&disk, offset)).unwrap(), "{offset}");
        }
        let mut foreign = varve_stdx::AlignedBuf::zeroed(SUPERBLOCK_BYTES);
        foreign[7] = 1;
        finish(disk.write(SUPERBLOCK_STRIDE, foreign.freeze(), Persist::Durable)).unwrap();
        assert!(
            !finish(is_of_making(&disk, SUPERBLOCK_STRIDE)).unwrap(),
            "somebody used the drive"
        );
    }
}
