//! What a shard knows of segments to be had, beside which of them are free.

use std::cell::Cell;

use varve_reactor::Notify;
use varve_types::Generation;

use crate::growth::Growth;
use crate::pool::Zone;

/// What a shard knows of segments to be had, beside which of them are free.
pub(crate) struct Allocation {
    /// Segments became free, or are left to others than before.
    changed: Notify,
    /// The generation that the next segment gets.
    next_generation: Cell<Generation>,
    /// A put found no room under the media's files.
    is_media_full: Cell<bool>,
    pub(crate) growth: Growth,
}

impl Allocation {
    pub(crate) fn new(next_generation: Generation, owned: Vec<Zone>) -> Self {
        Self {
            changed: Notify::new(),
            next_generation: Cell::new(next_generation),
            is_media_full: Cell::new(false),
            growth: Growth::new(owned),
        }
    }

    /// Wakes those who wait for a segment.
    pub(crate) fn note_change(&self) {
        self.changed.notify_all();
    }

    /// Waits until there may be a segment.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The generation that the next segment gets.
    pub(crate) fn next_generation(&self) -> Generation {
        self.next_generation.get()
    }

    /// A generation for a segment.
    pub(crate) fn fresh_generation(&self) -> Generation {
        let generation = self.next_generation.get();
        self.next_generation.set(generation.next());
        generation
    }

    /// Recovery saw a segment of this generation: later ones get higher ones.
    pub(crate) fn see_generation(&self, seen: Generation) {
        self.next_generation.set(self.next_generation.get().max(seen.next()));
    }

    /// So many generations may have been given to segments that nobody saw.
    pub(crate) fn skip_generations(&self, count: u64) {
        self.next_generation.set(Generation::new(self.next_generation.get().get() + count));
    }

    /// Whether a put found no room under the media's files.
    pub(crate) fn is_media_full(&self) -> bool {
        self.is_media_full.get()
    }

    /// Remembers whether a put found no room under the media's files. Returns whether that is new.
    pub(crate) fn set_media_full(&self, full: bool) -> bool {
        self.is_media_full.replace(full) != full
    }
}
