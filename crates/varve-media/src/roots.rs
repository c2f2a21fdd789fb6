//! Roots on a drive: two sides each, replaced one after the other. Called through `RootStore`.
//!
//! ROOTS-1. A side is written only while the other holds the newest contents intact: a torn write costs the new version
//!     only.
//! ROOTS-2. Contents are returned, and a replacement succeeds, only once both sides hold them: the decay of one side
//!     never brings an older version back.
//! ROOTS-3. Both sides carry a header from formatting on: if neither can be read, the root was damaged.
//! ROOTS-4. What is read is durable: a replacement that was cut off may have landed without being so.

use varve_types::PoolId;

use crate::contract::{IoFuture, RootKey, RootStore, RootVersion};
use crate::disk::Persist;
use crate::drive::{Drive, DriveInner, root_number};
use crate::format::{RootSlot, decode_root, encode_root};
use crate::inspect::RootSide;
use crate::planted::{Bug, planted};
use crate::{Error, Result};

/// What both sides hold.
struct Sides {
    /// Version and contents of each readable side.
    held: [Option<(u64, Vec<u8>)>; 2],
}

impl Sides {
    fn version(&self, side: usize) -> Option<u64> {
        self.held[side].as_ref().map(|(version, _)| *version)
    }

    /// The side with the newest contents; `None` when neither can be read.
    fn newest(&self) -> Option<usize> {
        let best = self.version(0).max(self.version(1));
        best.map(|_| usize::from(self.version(0) < best))
    }
}

/// Holds a root for one replacement.
struct RootClaim<'a> {
    inner: &'a DriveInner,
    root: u64,
}

impl<'a> RootClaim<'a> {
    async fn take(inner: &'a DriveInner, root: u64) -> Self {
        loop {
            let freed = inner.root_freed.notified();
            if !inner.busy_roots.borrow().contains(&root) {
                inner.busy_roots.borrow_mut().push(root);
                return Self { inner, root };
            }
            freed.await;
        }
    }
}

impl Drop for RootClaim<'_> {
    fn drop(&mut self) {
        self.inner.busy_roots.borrow_mut().retain(|root| *root != self.root);
        self.inner.root_freed.notify_all();
    }
}

impl DriveInner {
    fn pool(&self) -> PoolId {
        self.superblock().pool
    }

    async fn read_sides(&self, key: RootKey, root: u64) -> Result<Sides> {
        let (meta, superblock) = (&self.parts[0].meta, self.superblock());
        let len = usize::try_from(superblock.root_slot_bytes()).expect("at most 16 MiB and 4 KiB");
        let mut sides = Sides { held: [None, None] };
        let mut reasons = Vec::new();
        for (side, held) in sides.held.iter_mut().enumerate() {
            match meta.read(superblock.root_offset(root, side as u64), len).await {
                Err(error @ Error::Fenced) => return Err(error),
                Err(error) => reasons.push(error.to_string()),
                Ok(bytes) => match decode_root(self.pool(), root_id(root), &bytes) {
                    Ok((version, payload)) => *held = Some((version, payload.to_vec())),
                    Err(fault) => reasons.push(format!("side {side}: {fault}")),
                },
            }
        }
        if sides.newest().is_none() {
            let reason = format!("root {key}: {}", reasons.join("; "));
            return Err(Error::Corrupt { what: "root", path: meta.path().into(), reason }); // ROOTS-3
        }
        if !reasons.is_empty() {
            tracing::warn!(%key, reasons = reasons.join("; "), "one side of a root is unreadable");
        }
        Ok(sides)
    }

    /// Both sides, whether they can be read or not; nothing is repaired.
    pub(crate) async fn inspect_root(&self, key: RootKey) -> Result<[RootSide; 2]> {
        let (meta, superblock) = (&self.parts[0].meta, self.superblock());
        let root = root_number(key, superblock.lanes_of_pool)?;
        let len = usize::try_from(superblock.root_slot_bytes()).expect("at most 16 MiB and 4 KiB");
        let look = async |side: u8| {
            let offset = superblock.root_offset(root, u64::from(side));
            let read = meta.read(offset, len).await.map_err(|error| error.to_string());
            let content =
                read.and_then(|bytes| match decode_root(self.pool(), root_id(root), &bytes) {
                    Ok((version, payload)) => Ok((version, payload.to_vec())),
                    Err(fault) => Err(fault.to_string()),
                });
            RootSide { path: meta.path().to_owned(), side, offset, content }
        };
        Ok([look(0).await, look(1).await])
    }

    async fn write_side(&self, root: u64, side: usize, version: u64, bytes: &[u8]) -> Result<()> {
        let slot = RootSlot { pool: self.pool(), root: root_id(root), version };
        let offset = self.superblock().root_offset(root, side as u64);
        self.parts[0].meta.write(offset, encode_root(slot, bytes), Persist::Durable).await
    }

    async fn read_root(&self, key: RootKey) -> Result<(RootVersion, Vec<u8>)> {
        let root = root_number(key, self.superblock().lanes_of_pool)?;
        let _claim = RootClaim::take(self, root).await;
        self.parts[0].meta.flush().await?; // ROOTS-4
        let mut sides = self.read_sides(key, root).await?;
        let newest = sides.newest().expect("checked by `read_sides`");
        let (version, bytes) = sides.held[newest].take().expect("the newest side is readable");
        let other = 1 - newest;
        if sides.version(other) != Some(version) {
            self.write_side(root, other, version, &bytes).await?; // ROOTS-2
        }
        Ok((RootVersion(version), bytes))
    }

    async fn replace_root(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> Result<RootVersion> {
        let superblock = self.superblock();
        let root = root_number(key, superblock.lanes_of_pool)?;
        let (len, max) = (bytes.len() as u64, u64::from(superblock.root_bytes_max));
        if len > max {
            return Err(Error::RootTooLong { key: key.to_string(), len, max });
        }
        let _claim = RootClaim::take(self, root).await;
        self.check_fence()?;
        let sides = self.read_sides(key, root).await?;
        let newest = sides.newest().expect("checked by `read_sides`");
        let found = sides.version(newest).expect("the newest side is readable");
        if found != expected.0 {
            let (key, expected) = (key.to_string(), expected.0);
            return Err(Error::RootConflict { key, expected, found });
        }
        self.write_side(root, 1 - newest, found + 1, &bytes).await?; // ROOTS-1
        if !planted(Bug::RootOnOneSide) {
            self.write_side(root, newest, found + 1, &bytes).await?; // ROOTS-2
        }
        Ok(RootVersion(found + 1))
    }
}

/// Whether the bytes of one side of a root, by its number on its drive, are whole.
#[must_use]
pub fn is_whole_side(pool: PoolId, root: u64, bytes: &[u8]) -> bool {
    decode_root(pool, root_id(root), bytes).is_ok()
}

fn root_id(root: u64) -> u32 {
    u32::try_from(root).expect("at most 4096 lanes")
}

impl RootStore for Drive {
    fn bytes_max(&self) -> u32 {
        self.inner.superblock().root_bytes_max
    }

    fn read(&self, key: RootKey) -> IoFuture<'_, (RootVersion, Vec<u8>)> {
        Box::pin(self.inner.read_root(key))
    }

    fn replace(
        &self,
        key: RootKey,
        expected: RootVersion,
        bytes: Vec<u8>,
    ) -> IoFuture<'_, RootVersion> {
        Box::pin(self.inner.replace_root(key, expected, bytes))
    }
}
