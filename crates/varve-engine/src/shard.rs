//! A shard: one owner's slice of a pool, on one thread. State here and in the `state.rs` of its parts, behaviour in the
//! other files of the crate.
//!
//! ```text
//!  open ──recovery──▶ serving ──close()──▶ closing ──▶ closed
//!                        └──── definite error ────────▶ failed (reopened by whoever owns it, through recovery)
//! ```
//!
//! SHARD-1. Everything runs on one thread; no borrow of a cell is held across an await.
//! SHARD-2. A shard that failed accepts nothing more. It is reopened only after its own writes have ended.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};

use futures_util::future::{Either, select};
use varve_logstore::lane::{Journal, JournalFrame};
use varve_logstore::space::Space;
use varve_media::Media;
use varve_reactor::Reactor;
use varve_types::ShardId;

use crate::admission::{Admission, Semaphore};
use crate::allocation::Allocation;
use crate::apply::Apply;
use crate::buffer::Carrier;
use crate::caches::Caches;
use crate::checkpoint::Checkpoint;
use crate::config::ShardConfig;
use crate::counters::{Counters, ShardStats, StateGauges};
use crate::drain::Drain;
use crate::lifecycle::Lifecycle;
use crate::mark::MarkState;
use crate::peers::Foreign;
use crate::reclaim::Reclaim;
use crate::reduce::Reduce;
use crate::reservations::Reservations;
use crate::trees::Trees;
use crate::writes::WriteGuard;
use crate::zone_moves::ZoneMoves;
use crate::{Error, Result};

/// Nanoseconds between looks at whether the lane has drained while closing.
const CLOSE_POLL_NS: u64 = 200_000;

/// Nanoseconds until the journal may say once more that it lost a copy: media that go on saying so keep nobody busy.
const EXPOSED_PAUSE_NS: u64 = 100_000_000;

/// One shard, open, on one thread (SHARD-1). See the module.
pub struct Shard {
    pub(crate) me: Weak<Shard>,
    pub(crate) reactor: Reactor,
    pub(crate) media: Media,
    pub(crate) config: ShardConfig,
    pub(crate) lifecycle: Lifecycle,

    pub(crate) admission: Admission,
    pub(crate) drain: Drain,
    pub(crate) apply: Apply,

    pub(crate) trees: RefCell<Trees>,
    pub(crate) caches: Caches,

    pub(crate) space: RefCell<Space>,
    pub(crate) allocation: Allocation,
    pub(crate) zone_moves: ZoneMoves,

    pub(crate) checkpoint: Checkpoint,
    pub(crate) reclaim: Reclaim,

    pub(crate) reduce: Reduce,
    pub(crate) foreign: Rc<Foreign>,

    pub(crate) mark: MarkState,
    pub(crate) reservations: Reservations,

    pub(crate) counters: Counters,
}

impl Shard {
    pub(crate) fn lane(&self) -> &Rc<Journal> {
        self.admission.lane().expect("the lane is set before anything is admitted")
    }

    /// Refuses when the shard failed; what was admitted before it began to close still goes on.
    pub(crate) fn check_running(&self) -> Result<()> {
        self.lifecycle.check_running()
    }

    /// Refuses when the shard does not serve.
    pub(crate) fn check_open(&self) -> Result<()> {
        self.lifecycle.check_open()
    }

    /// Remembers whether the media have room; those who wait for credits are told when it ends.
    pub(crate) fn set_media_full(&self, full: bool) {
        if !self.allocation.set_media_full(full) {
            return;
        }
        if full {
            tracing::error!(
                shard = self.config.shard.0,
                "no room under the media: data are refused until there is"
            );
            self.admission.credits.data.pass();
            self.drain.puts.changed.notify_all();
        } else {
            tracing::warn!(shard = self.config.shard.0, "the media have room again");
        }
    }

    /// Whether the shard failed and should be reopened.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.lifecycle.has_failed()
    }

    /// Waits until the shard fails or is closed.
    pub async fn stopped(&self) {
        self.lifecycle.stopped().await;
    }

    /// Something was refused: whatever may free space goes on at once.
    pub(crate) fn request_space(&self) {
        self.reclaim.request();
        if self.reduce.dedup.borrow().kept_bytes() > 0 {
            self.mark.wanted.set(true);
        }
        self.drain.refused.set(true);
        self.drain.request();
        self.admission.press();
    }

    /// Whether it refuses every change, as what is written is not kept.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.config.is_read_only
    }

    /// Runs a task of the shard; its error fails the shard.
    pub(crate) fn spawn_task(
        self: &Rc<Self>,
        name: &'static str,
        task: impl Future<Output = Result<()>> + 'static,
    ) {
        let shard = Rc::clone(self);
        self.reactor.spawn(async move {
            let stopped = {
                let shard = Rc::clone(&shard);
                Box::pin(async move { shard.stopped().await })
            };
            if let Either::Left((Err(error), _)) = select(Box::pin(task), stopped).await {
                shard.fail(name, &error);
            }
        });
    }

    /// Closes the shard after a definite error (SHARD-2).
    pub(crate) fn fail(&self, task: &str, error: &Error) {
        if self.lifecycle.is_stopped() {
            return; // It failed before, or was closed: then its lane is meant to end.
        }
        tracing::error!(shard = self.config.shard.0, task, %error, "shard closed");
        self.lifecycle.fail(error.clone());
        self.end();
    }

    fn end(&self) {
        self.lifecycle.end();
        if let Some(lane) = self.admission.lane() {
            lane.fail(varve_logstore::Error::LaneFailed);
        }
        self.admission.credits.all().into_iter().for_each(Semaphore::lift);
        self.admission.cuts.release_all();
        self.lifecycle.announce_end();
        self.allocation.note_change();
        self.mark.has_ended.notify_all();
        self.apply.advanced.notify_all();
        self.drain.request();
        self.drain.advanced.notify_all();
        self.drain.puts.changed.notify_all();
        self.reclaim.purge_rounds.changed.notify_all();
        self.zone_moves.changed.notify_all();
        assert!(self.begin_write().is_err(), "nothing more is written"); // SHARD-2
    }

    /// Lets every later frame say up to which segments of both chains all are durable.
    pub(crate) fn tell_witnesses(&self) {
        if let Some(lane) = self.admission.lane() {
            lane.set_witness(self.drain.puts.witness(), self.reclaim.witness());
        }
    }

    /// Fails the shard when its lane does, and moves what the lane holds on when it lost a copy.
    pub(crate) async fn run_watch(self: Rc<Self>) -> Result<()> {
        let failure = pin!(self.lane().failure());
        let exposed = pin!(self.seal_exposed());
        match select(failure, exposed).await {
            Either::Left((error, _)) => Err(error.into()),
            Either::Right((ended, _)) => ended,
        }
    }

    /// Seals what the lane holds each time that it lost a copy (DRAIN-8). Returns when the shard has ended.
    async fn seal_exposed(&self) -> Result<()> {
        loop {
            self.media.journal.exposed().await;
            let used_bytes = self.lane().stats().used_bytes;
            tracing::warn!(
                shard = self.config.shard.0,
                used_bytes,
                "the journal lost a copy: what it holds is stored at once"
            );
            self.apply_acknowledged().await?;
            self.reactor.sleep(EXPOSED_PAUSE_NS).await;
        }
    }

    /// Counts a write to the media from now until the result is dropped.
    ///
    /// # Errors
    /// Once the shard has ended: why.
    pub(crate) fn begin_write(&self) -> Result<WriteGuard> {
        self.lifecycle.begin_write()
    }

    /// Waits until nothing this shard began can still reach the media (SHARD-2).
    pub async fn quiesced(&self) {
        self.lifecycle.writes.ended().await;
        if let Some(lane) = self.admission.lane() {
            lane.quiesced().await;
        }
    }

    /// Drains everything, makes a checkpoint and stops. Durable on return: the next open replays nothing.
    ///
    /// # Errors
    /// When media fail; the next open then recovers.
    pub async fn close(&self) -> Result<()> {
        self.check_open()?;
        self.lifecycle.close();
        self.mark.has_ended.notify_all(); // Writes that wait for one are refused.
        self.zone_moves.changed.notify_all();
        self.drain.request();
        while !self.lane().is_drained() {
            if self.has_failed() {
                return self.check_running();
            }
            self.reactor.sleep(CLOSE_POLL_NS).await;
        }
        let outcome = self.settle().await;
        if outcome.is_ok() {
            debug_assert!(self.lane().is_drained(), "nothing is admitted while a shard closes");
            self.end();
        }
        self.quiesced().await;
        outcome
    }

    async fn settle(&self) -> Result<()> {
        self.apply_acknowledged().await?;
        self.checkpoint().await
    }

    /// Waits until the trees show everything that is acknowledged now.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed.
    pub async fn apply_acknowledged(&self) -> Result<()> {
        let target = self.lane().head().frame_seq;
        self.drain.request_upto(target);
        while self.drain.point.get().frame_seq < target {
            self.check_running()?;
            self.drain.advanced.notified().await;
        }
        self.flush_data().await
    }

    /// Seals what is drained and waits until the trees show it.
    pub(crate) async fn flush_data(&self) -> Result<()> {
        {
            let _gate = self.drain.gate.take(1).await;
            self.seal_data().await?;
            assert!(self.drain.writer.borrow().is_empty(), "what is drained is sealed");
        }
        let target = self.drain.writer.borrow().chain().seq;
        while self.apply.chain().seq < target {
            if self.has_failed() {
                return self.check_running();
            }
            self.apply.advanced.notified().await;
        }
        Ok(())
    }

    /// Waits until a frame is durable; says why when it never will be.
    pub(crate) async fn wait_frame(&self, frame: &JournalFrame) -> Result<()> {
        frame.durable().await.map_err(|error| match self.check_running() {
            Err(closed) => closed,
            Ok(()) => error.into(),
        })
    }

    /// Whether a version is durable.
    pub(crate) fn is_durable(&self, carrier: &Carrier) -> bool {
        match carrier {
            Carrier::Frame(frame) => frame.is_durable(),
            Carrier::Segment(seq) => self.segment_is_durable(*seq),
        }
    }

    /// Waits until a version is durable; says why when it may never be.
    pub(crate) async fn wait_durable(&self, carrier: &Carrier) -> Result<()> {
        match carrier {
            Carrier::Frame(frame) => self.wait_frame(frame).await,
            Carrier::Segment(seq) => self.wait_segment(*seq).await,
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ShardId {
        self.config.shard
    }

    /// The shard in numbers.
    #[must_use]
    pub fn stats(&self) -> ShardStats {
        let cache = self.trees.borrow().cache.stats();
        let blocks = self.caches.blocks.borrow();
        let (block_cache_hits, block_cache_misses) = blocks.hits_and_misses();
        let (room_bytes, reach_bytes, spare_bytes) = self.figures_of_room();
        self.counters.stats(StateGauges {
            kept_bytes: self.reduce.dedup.borrow().kept_bytes(),
            data_chunks: self.trees.borrow().data.chunks,
            data_bytes: self.trees.borrow().data.bytes,
            dedup_index_entries: self.reduce.dedup.borrow().index_len() as u64,
            uncopied_segments: self.checkpoint.metadata.copies.lacking.get(),
            reclaimed_segments: self.reclaim.freed_segments.get(),
            lane: self.admission.lane().map(|lane| lane.stats()).unwrap_or_default(),
            space: self.space.borrow().stats(),
            segment_bytes: u64::from(self.media.segments.geometry().segment_bytes),
            buffer_bytes: self.admission.credits.all().map(Semaphore::taken).iter().sum(),
            // Lifted credits are without bound.
            buffer_bytes_max: self
                .admission
                .credits
                .all()
                .map(Semaphore::total)
                .into_iter()
                .fold(0, u64::saturating_add),
            buffered_blocks: self.admission.buffer.borrow().block_count() as u64,
            page_cache_bytes: cache.resident_bytes as u64,
            dirty_bytes: cache.dirty_bytes as u64,
            waiting_deaths: self.trees.borrow().deaths.len() as u64,
            deaths_bytes: self.trees.borrow().deaths.bytes() as u64,
            waiting_updates: self.trees.borrow().deltas.len(),
            updates_bytes: self.trees.borrow().deltas.bytes() as u64,
            block_cache_bytes: blocks.bytes() as u64,
            block_cache_hits,
            block_cache_misses,
            media_full: self.allocation.is_media_full() || self.lacks_room(),
            room_bytes,
            reach_bytes,
            spare_bytes,
            reserved_bytes: self.reservations.reserved_bytes(),
            outstanding_bytes: self.reservations.outstanding_bytes(None),
        })
    }
}
