//! Roots of a pool on its first drive. Called through `RootStore`.

use varve_types::PoolId;

use crate::contract::{IoFuture, RootKey, RootStore, RootVersion};
use crate::disk::Disk;
use crate::drive::{Drive, DriveInner, root_number};
use crate::format::decode_root;
use crate::inspect::RootSide;
use crate::sided_root::{RootUpdate, SidedRoot};
use crate::{Error, Result};

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

    /// The root of that number, and the disk that it is on.
    fn sided_root(&self, root: u64) -> (SidedRoot, &dyn Disk) {
        (SidedRoot::of_drive(self.superblock(), root), &*self.parts[0].meta)
    }

    /// Both sides, whether they can be read or not; nothing is repaired.
    pub(crate) async fn inspect_root(&self, key: RootKey) -> Result<[RootSide; 2]> {
        let root = root_number(key, self.superblock().lanes_of_pool)?;
        let (sided, meta) = self.sided_root(root);
        let contents = sided.inspect(meta, self.pool()).await;
        let mut side = 0;
        Ok(contents.map(|content| {
            let (offset, number) = (sided.sides[usize::from(side)], side);
            side += 1;
            RootSide { path: meta.path().to_owned(), side: number, offset, content }
        }))
    }

    async fn read_root(&self, key: RootKey) -> Result<(RootVersion, Vec<u8>)> {
        let root = root_number(key, self.superblock().lanes_of_pool)?;
        let _claim = RootClaim::take(self, root).await;
        let (sided, meta) = self.sided_root(root);
        sided.read(meta, self.pool()).await
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
        let (sided, meta) = self.sided_root(root);
        let sides = sided.read_sides(meta, self.pool()).await?;
        let found = sides.version();
        if found != expected {
            let (key, expected, found) = (key.to_string(), expected.0, found.0);
            return Err(Error::RootConflict { key, expected, found });
        }
        let version = RootVersion(found.0 + 1);
        let update = RootUpdate { newest: sides.newest, version, bytes: &bytes };
        sided.replace_sides(meta, self.pool(), &update).await?;
        Ok(version)
    }
}

/// Whether the bytes of one side of a root, by its number on its drive, are whole.
#[must_use]
pub fn is_whole_side(pool: PoolId, root: u64, bytes: &[u8]) -> bool {
    u32::try_from(root).is_ok_and(|root| decode_root(pool, root, bytes).is_ok())
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
