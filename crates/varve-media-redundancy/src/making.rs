//! A new pool's tables on its drives.
use varve_media::{RedundantSpec, RedundantSuperblock, Result};
use varve_reactor::Reactor;
use crate::change::NewMember;
use crate::class::{MediumKinds, StripeShape};
use crate::handles::RedundantDisks;
use crate::ids::{DriveNumber, HistoryId};
use crate::view::LayoutView;

/// A drive of a new pool.
pub struct NewPoolDrive {
    /// What it is.
    pub member: NewMember,
    /// By [`superblock_of`], with its index as number.
    pub superblock: RedundantSuperblock,
    /// Its disks.
    pub disks: RedundantDisks,
}
/// What a pool is made with.
#[derive(Clone, Debug)]
pub struct MakingSpec {
    /// Figures that all drives share.
    pub figures: RedundantSpec,
    /// The class of its zones.
    pub shape: StripeShape,
    /// Drives that it may use.
    pub kinds: MediumKinds,
    /// Slots of a zone.
    pub zone_segments: u32,
    /// Random.
    pub history: HistoryId,
}
/// The superblock that a drive gets.
pub fn superblock_of(figures: &RedundantSpec, number: DriveNumber, member: &NewMember) -> Result<RedundantSuperblock> { todo!() }
/// Makes a pool.
pub async fn make(reactor: &Reactor, drives: &[NewPoolDrive], spec: &MakingSpec) -> Result<LayoutView> { todo!() }
