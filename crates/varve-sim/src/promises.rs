//! Space promised to streams: what was promised is there after every cut, and whoever was promised something is not
//! refused for a full shard.

use std::rc::Rc;

use varve_engine::{BlockMapping, Error, Reservation, ReservationSize};
use varve_stdx::Rng;
use varve_types::ByteRange;

use crate::content::{Likeness, fill_blocks};
use crate::model::ModelStream;
use crate::workload::{BLOCK, HUGE, SimClient};

/// Runs of a stream's status looked at together.
const RUNS_AT_ONCE: usize = 256;

/// Blocks written together where all of a stream is.
const REWRITE_BLOCKS: u64 = 4;

impl SimClient {
    /// Promises a stream space for all that is ever written to it, or promises it nothing any more.
    pub(crate) async fn change_promise(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        if stream.promise_changes.get() {
            return;
        }
        if stream.is_promised.get() {
            if rng.chance(1, 3) {
                stream.promise_changes.set(true);
                self.release(stream).await;
                stream.promise_changes.set(false);
            }
            return;
        }
        if rng.chance(1, 2) {
            stream.promise_changes.set(true);
            self.promise(stream, false).await;
            stream.promise_changes.set(false);
            return;
        }
        // One that takes the place of another, and is nobody's before it has its promise.
        let fresh = self.world.fresh_stream();
        self.model().copies.borrow_mut().push(fresh.id);
        self.promise(&fresh, true).await;
        self.model().copies.borrow_mut().retain(|id| *id != fresh.id);
        if !self.take_out(stream) {
            return;
        }
        self.model().streams.borrow_mut().push(fresh);
        self.drop_taken(stream).await;
    }

    async fn promise(&self, stream: &ModelStream, is_fresh: bool) {
        let blocks =
            self.world.config.stream_blocks + self.world.config.write_bytes_max / BLOCK + 2;
        let size = ReservationSize { blocks, pages: blocks.div_ceil(512) + 2 };
        self.world.record("promise", self.id, &[stream.id.get(), blocks]);
        let outcome = self.shard.reserve(stream.id, size, is_fresh).await;
        if outcome.is_ok() && !stream.dropped.get() {
            stream.is_promised.set(true);
        }
        self.world.record("promised", self.id, &[stream.id.get(), u64::from(outcome.is_ok())]);
        self.settle(outcome, "reservation");
    }

    /// Promises a stream nothing any more.
    pub(crate) async fn release(&self, stream: &ModelStream) {
        stream.is_promised.set(false);
        self.world.record("release", self.id, &[stream.id.get()]);
        self.settle(self.shard.release_reservation(stream.id).await, "release of a reservation");
    }

    /// Takes back what was promised to streams that are not there: their promise was under way when the power was cut.
    pub(crate) async fn release_strangers(&self) {
        for Reservation { stream, .. } in self.shard.reservations() {
            let is_known = self.model().streams.borrow().iter().any(|known| known.id == stream);
            if !is_known {
                let outcome = self.shard.release_reservation(stream).await;
                self.settle(outcome, "release of a stranger's reservation");
            }
        }
    }

    /// Judges the answer of a write to a stream that something was promised to, from before the write on.
    pub(crate) fn judge_promised(&self, stream: &ModelStream, outcome: &varve_engine::Result<()>) {
        let is_promised = stream.is_promised.get() && !stream.dropped.get();
        if is_promised && !self.world.faulty.get() && matches!(outcome, Err(Error::NoSpace { .. }))
        {
            let (promises, stats) = (self.shard.reservations(), self.shard.stats());
            self.world.violated(format!(
                "shard {} refused stream {} what it promised: {promises:?} {stats:?}",
                self.id, stream.id
            ));
        }
    }

    /// While nothing is under way: what was promised is promised, and no more counts as held than there is.
    pub(crate) async fn check_promises(&self) {
        let promises = self.shard.reservations();
        let streams = self.model().streams.borrow().clone();
        for stream in streams.iter().filter(|stream| stream.is_promised.get()) {
            let Some(promise) = promises.iter().find(|promise| promise.stream == stream.id) else {
                let what = format!("shard {} forgot what it promised {}", self.id, stream.id);
                return self.world.violated(what);
            };
            let Some(data) = self.blocks_with_data(stream).await else { return };
            if promise.held_blocks > data {
                self.world.violated(format!(
                    "shard {} stream {} holds {data} blocks: {promise:?}",
                    self.id, stream.id
                ));
                return;
            }
        }
    }

    /// Drops all that nothing was promised to.
    pub(crate) async fn keep_promised(&self) {
        let (promised, others): (Vec<_>, Vec<_>) =
            self.model().streams.take().into_iter().partition(|stream| stream.is_promised.get());
        *self.model().streams.borrow_mut() = promised;
        for other in others {
            self.drop_taken(&other).await;
        }
    }

    /// Writes all that was promised, or, where nothing was, is now; copies of it hold the same blocks in half of the
    /// cases.
    pub(crate) async fn fill_promised(&self, rng: &mut Rng) {
        if self.model().streams.borrow().is_empty() {
            let fresh = self.world.fresh_stream();
            self.promise(&fresh, true).await;
            if fresh.is_promised.get() {
                self.model().streams.borrow_mut().push(fresh);
            }
        }
        let promised = self.model().streams.borrow().clone();
        for stream in &promised {
            self.rewrite(stream, Likeness { is_duplicate: true, is_compressible: true }).await;
        }
        if rng.chance(1, 2) {
            for stream in &promised {
                self.cut_together(&[Rc::clone(stream)]).await;
            }
        }
    }

    /// Whoever was promised something gets it once others have taken all that they can have: blocks of any contents,
    /// whatever its own blocks and copies of them hold.
    pub(crate) async fn keep_promises(&self) {
        let other = self.world.fresh_stream();
        self.model().streams.borrow_mut().push(Rc::clone(&other));
        let mut offset = 0;
        for len in [REWRITE_BLOCKS * BLOCK, BLOCK] {
            while self.write_like(&other, offset, len, Likeness::NONE).await {
                offset += len;
            }
        }
        let streams = self.model().streams.borrow().clone();
        for stream in streams.iter().filter(|stream| stream.is_promised.get()) {
            self.rewrite(stream, Likeness::NONE).await;
        }
    }

    /// Writes all of a stream.
    async fn rewrite(&self, stream: &Rc<ModelStream>, likeness: Likeness) {
        let (end, len) = (self.world.config.stream_blocks * BLOCK, REWRITE_BLOCKS * BLOCK);
        let mut offset = 0;
        while offset < end && !self.world.is_violated() {
            self.write_like(stream, offset, len.min(end - offset), likeness).await;
            offset += len;
        }
    }

    async fn write_like(
        &self,
        stream: &Rc<ModelStream>,
        offset: u64,
        len: u64,
        likeness: Likeness,
    ) -> bool {
        let fill_all =
            |data: &mut [u8], operation| fill_blocks(data, operation, offset, || likeness);
        self.write_filled(stream, offset, len, fill_all).await
    }

    async fn blocks_with_data(&self, stream: &ModelStream) -> Option<u64> {
        let (mut start, mut blocks) = (0, 0);
        while start < HUGE {
            let range = ByteRange { start, end: HUGE };
            let status = match self.shard.block_status(stream.id, range, RUNS_AT_ONCE).await {
                Ok(status) => status,
                Err(error) => {
                    self.settle(Err(error), "block status");
                    return None;
                }
            };
            if status.is_empty() {
                break;
            }
            for run in status {
                start += run.len;
                blocks += if run.mapped == BlockMapping::Data { run.len / BLOCK } else { 0 };
            }
        }
        Some(blocks)
    }
}
