//! The host's file system under the files of segments, and what others keep on it.

use std::cell::Cell;

use varve_media::{RoomPolicy, SimHost, SimMedium};
use varve_stdx::Rng;

use crate::config::WorldConfig;

/// The host's file system.
pub(crate) struct Host {
    system: SimHost,
    /// Bytes that others take.
    ballast_bytes: Cell<u64>,
}

impl Host {
    /// The host of a world whose files may find no room; none where there is always enough.
    pub(crate) fn new(config: &WorldConfig) -> Option<Self> {
        let policy = config.host_policy?;
        let bytes = u64::from(config.host_segments) * u64::from(config.segment_bytes);
        Some(Self { system: SimHost::new(bytes, policy), ballast_bytes: Cell::new(0) })
    }

    /// Has a medium be a file on it.
    pub(crate) fn carry(&self, medium: &SimMedium) {
        medium.lie_on(&self.system);
    }

    /// Others take some of what is free, or all of it, or give back what they have.
    pub(crate) fn change(&self, rng: &mut Rng) {
        let free = self.system.free_bytes();
        let wanted = match rng.below(4) {
            0 => return self.clear(),
            1 => free,
            _ => rng.below(free + 1),
        };
        self.ballast_bytes.set(self.ballast_bytes.get() + self.system.take(wanted));
    }

    /// Others give back what they have.
    pub(crate) fn clear(&self) {
        self.system.give(self.ballast_bytes.take());
    }

    /// Whether room may be missing that the shards reckon with.
    pub(crate) fn promises_nothing(&self) -> bool {
        self.system.policy() == RoomPolicy::CopyOnWrite
    }

    /// What is wrong, if a segment was written that had no room although room can be promised.
    pub(crate) fn violation(&self) -> Option<String> {
        let refused = self.system.refused_writes();
        let is_wrong = refused > 0 && !self.promises_nothing();
        is_wrong.then(|| format!("{refused} segments were written for which the host has no room"))
    }
}
