//! A volume: a thin-provisioned array of bytes of a fixed size that can be changed.
//!
//! An open snapshot is one that does not change: what would change it is refused.
//!
//! VOLUME-1. Every write, trim and zeroing is durable when it returns, so a flush has nothing to wait for.

use std::rc::Rc;
use std::sync::Arc;

use varve_dispatch::{BlockStatus, DiffRun, Dispatch, Extents, ReadPart, Route};
use varve_stdx::BufSlice;
use varve_types::{ByteOffset, ByteRange, Compression, Dedup, Reduction, SnapshotIdentity};

use crate::connections::{self, AdmittedConnection};
use crate::datasets::SharedDatasets;
use crate::name::SNAPSHOT_MARK;
use crate::open::{AccessMode, ChangeGuard, OpenVolume};
use crate::record::VolumeInfo;
use crate::volume_move::{Move, MoveState};
use crate::{Error, Result};

/// What a new volume is to be.
#[derive(Clone, Debug)]
pub struct VolumeSpec {
    /// Name, with or without a namespace.
    pub name: String,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// Block size that clients are told to prefer, in bytes.
    pub block_size_bytes: u32,
    /// Whether its blocks are deduplicated; [`Reduction::default`] says when this does not.
    pub dedup: Option<Dedup>,
    /// How its blocks are compressed; [`Reduction::default`] says when this does not.
    pub compression: Option<Compression>,
    /// The most data that it may hold, in bytes; snapshots do not count.
    pub quota_bytes: Option<u64>,
    /// Whether space is reserved for all of it.
    pub reserved: bool,
    /// Whether it is served to one connection of a client at a time.
    pub exclusive: bool,
    /// The snapshot that it is to receive, if it is made for one.
    pub receiving: Option<SnapshotIdentity>,
    /// Where it moves from, if it does.
    pub moves: Option<Move>,
}

struct VolumeInner {
    dispatch: Dispatch,
    shared: Arc<SharedDatasets>,
    info: VolumeInfo,
    route: Route,
    is_snapshot: bool,
    /// Whether who has it open can be shut out while it is being read: reads are counted then too.
    arrives: bool,
    open: Arc<OpenVolume>,
}

impl Drop for VolumeInner {
    fn drop(&mut self) {
        self.shared.open.close(self.route.stream, &self.open);
    }
}

/// An open volume on this thread. Cheap to clone; it counts as open until the last clone is dropped.
#[derive(Clone)]
pub struct Volume(Rc<VolumeInner>);

impl Volume {
    /// Where its blocks are.
    #[cfg(test)]
    pub(crate) fn route(&self) -> Route {
        self.0.route
    }

    pub(crate) fn new(
        dispatch: Dispatch,
        shared: Arc<SharedDatasets>,
        info: VolumeInfo,
        route: Route,
        open: Arc<OpenVolume>,
    ) -> Self {
        let is_snapshot = info.name.contains(SNAPSHOT_MARK);
        let arrives = info.moves.as_ref().is_some_and(|moves| moves.state == MoveState::Arriving);
        Self(Rc::new(VolumeInner { dispatch, shared, info, route, is_snapshot, arrives, open }))
    }

    /// Whether it is a snapshot, which refuses to be changed.
    #[must_use]
    pub fn is_snapshot(&self) -> bool {
        self.0.is_snapshot
    }

    /// Admits a change; it is under way until the second value is dropped.
    fn check_change(&self, offset: ByteOffset, len: u64) -> Result<(ByteRange, ChangeGuard<'_>)> {
        if self.0.is_snapshot {
            return Err(Error::ReadOnly { name: self.0.info.name.clone() });
        }
        let changing = self.0.open.begin_change().map_err(|gate| self.moves(gate))?; // MOVING-1
        Ok((self.check(offset, len)?, changing))
    }

    /// The same for a read. It costs nothing but of a volume that arrives.
    fn check_read(
        &self,
        offset: ByteOffset,
        len: u64,
    ) -> Result<(ByteRange, Option<ChangeGuard<'_>>)> {
        let under_way = match self.0.arrives {
            true => Some(self.0.open.begin_change().map_err(|gate| self.moves(gate))?), // MOVING-5
            false => None,
        };
        Ok((self.check(offset, len)?, under_way))
    }

    /// What a client is told whose request a move forbids.
    fn moves(&self, gate: AccessMode) -> Error {
        let state = if gate == AccessMode::Shut { MoveState::Left } else { MoveState::Leaving };
        Error::Moving { name: self.0.info.name.clone(), state }
    }

    /// The volume as it is now.
    #[must_use]
    pub fn info(&self) -> VolumeInfo {
        let Reduction { dedup, compression } = self.0.open.reduction();
        let size_bytes = self.size_bytes();
        let quota_bytes = self.0.open.budget().quota_bytes();
        let exclusive = self.is_exclusive();
        VolumeInfo { size_bytes, dedup, compression, quota_bytes, exclusive, ..self.0.info.clone() }
    }

    /// Whether it is served to one connection of a client at a time.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.0.open.connections().is_exclusive()
    }

    /// The client that keeps others from connecting, if the volume is exclusive.
    #[must_use]
    pub fn holder(&self) -> Option<String> {
        self.0.open.connections().holder()
    }

    /// Admits a connection of a client, by the name that people know the client by; it lasts until what is returned is
    /// dropped.
    ///
    /// # Errors
    /// The client that has the volume, where it is exclusive.
    pub fn admit(&self, peer: &str) -> std::result::Result<AdmittedConnection, String> {
        connections::admit(&self.0.open, peer)
    }

    /// Bytes of the volume now; a resize shows at once.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.0.open.size_bytes()
    }

    /// Block size that clients are told to prefer, in bytes.
    #[must_use]
    pub fn block_size_bytes(&self) -> u32 {
        self.0.info.block_size_bytes
    }

    fn check(&self, offset: ByteOffset, len: u64) -> Result<ByteRange> {
        if self.0.open.gate() == AccessMode::Shut {
            return Err(self.moves(AccessMode::Shut)); // MOVING-3
        }
        let size_bytes = self.size_bytes();
        match ByteRange::checked(offset.0, len) {
            Some(range) if range.end <= size_bytes => Ok(range),
            _ => Err(Error::OutOfRange { offset: offset.0, len, size_bytes }),
        }
    }

    /// Reads `len` bytes at `offset`, of any alignment; parts in order.
    ///
    /// # Errors
    /// `Corrupt` for damaged data, never wrong bytes; `Invalid` beyond the end.
    pub async fn read(&self, offset: ByteOffset, len: u32) -> Result<Vec<ReadPart>> {
        let _reading = self.check_read(offset, u64::from(len))?;
        Ok(self.0.dispatch.read(self.0.route, offset, len as usize).await?)
    }

    /// Writes `data` at `offset`, of any alignment, reduced as the volume wants it now. Durable on return (VOLUME-1).
    ///
    /// # Errors
    /// `NoSpace` when the pool is full, or the volume's quota reached; `Invalid` beyond the end; `Denied` for a
    /// snapshot; `Fenced` when the volume moves to another pool.
    pub async fn write(&self, offset: ByteOffset, data: BufSlice) -> Result<()> {
        let (range, _changing) = self.check_change(offset, data.len() as u64)?;
        let VolumeInner { dispatch, shared, route, info, open, .. } = &*self.0;
        let charge = open.budget().admit(dispatch, *route, range, &info.name).await;
        if let Err(Error::OverQuota { .. }) = charge {
            shared.activity.writes_over_quota.add(1);
        }
        let _charge = charge?;
        Ok(dispatch.write(*route, offset, data, open.reduction()).await?)
    }

    /// Makes bytes read as zeros and gives their space back. Durable on return, whatever the length.
    ///
    /// # Errors
    /// `Invalid` beyond the end.
    pub async fn trim(&self, offset: ByteOffset, len: u64) -> Result<()> {
        let (range, _changing) = self.check_change(offset, len)?;
        Ok(self.0.dispatch.trim(self.0.route, range).await?)
    }

    /// Makes bytes read as zeros; with `keep_allocated` they stay allocated in the eyes of the client. Durable on
    /// return.
    ///
    /// # Errors
    /// `Invalid` beyond the end.
    pub async fn write_zeroes(
        &self,
        offset: ByteOffset,
        len: u64,
        keep_allocated: bool,
    ) -> Result<()> {
        let (range, _changing) = self.check_change(offset, len)?;
        Ok(self.0.dispatch.write_zeroes(self.0.route, range, keep_allocated).await?)
    }

    /// Makes everything durable that returned before: it is already (VOLUME-1).
    ///
    /// # Errors
    /// None today; shards with other promises may have some.
    pub async fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// What bytes hold, in at most `max` runs; may stop before the end of the range.
    ///
    /// # Errors
    /// `Invalid` beyond the end.
    pub async fn block_status(
        &self,
        offset: ByteOffset,
        len: u64,
        max: usize,
    ) -> Result<Vec<BlockStatus>> {
        let (range, _reading) = self.check_read(offset, len)?;
        Ok(self.0.dispatch.block_status(self.0.route, range, max).await?)
    }

    /// Which bytes of a range are stored; with `since`, which may differ from what that volume or snapshot of the same
    /// family holds. Stops after about `max` extents, or a second, and tells where to go on. Costs what is stored, or
    /// differs.
    ///
    /// # Errors
    /// `Invalid` beyond the end, or when the two have nothing in common.
    pub(crate) async fn extents(
        &self,
        since: Option<&Self>,
        range: ByteRange,
        max: usize,
    ) -> Result<Extents> {
        let (range, _reading) = self.check_read(ByteOffset(range.start), range.len())?;
        let from = since.map(|since| self.check_family(since)).transpose()?;
        Ok(self.0.dispatch.extents(self.0.route, from, range, max).await?)
    }

    /// Where a volume or snapshot of the same family is.
    fn check_family(&self, other: &Self) -> Result<Route> {
        if other.0.route.placement != self.0.route.placement {
            let (name, other) = (self.0.info.name.clone(), other.0.info.name.clone());
            return Err(Error::Unrelated { name, other });
        }
        Ok(other.0.route)
    }

    /// Which bytes may differ from what another volume or snapshot of the same family holds, in at most `max` runs; may
    /// stop before the end of the range. Costs what differs.
    ///
    /// # Errors
    /// `Invalid` beyond the end, or when the two have nothing in common.
    pub async fn diff(
        &self,
        from: &Self,
        offset: ByteOffset,
        len: u64,
        max: usize,
    ) -> Result<Vec<DiffRun>> {
        let (range, _reading) = self.check_read(offset, len)?;
        let from = self.check_family(from)?;
        Ok(self.0.dispatch.diff(from, self.0.route, range, max).await?)
    }
}
