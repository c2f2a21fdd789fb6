//! Random requests to one shard, each entered in the model before it is sent and after it is answered.

use std::rc::Rc;

use varve_engine::{BlockMapping, CutId, CutPair, ReadPart, Result, Shard};
use varve_object::shelf::BucketShard;
use varve_stdx::{AlignedBuf, Rng};
use varve_types::{ByteOffset, ByteRange, ErrorKind, ShardId, StreamId};

use crate::block::{BlockModel, SECTOR_BYTES};
use crate::content::{BlockContent, Likeness, describe, fill, fill_blocks};
use crate::model::{Coverage, ModelStream, ShardModel, StreamModel};
use crate::peers::Network;
use crate::register::Register;
use crate::world::World;

pub(crate) const BLOCK: u64 = varve_engine::BLOCK_BYTES as u64;

/// Far beyond every block that is written.
pub(crate) const HUGE: u64 = 1 << 44;

/// Blocks from which on a write may bypass the lane.
const LARGE_BLOCKS_MIN: u64 = 16;

/// Streams of a shard from which on no copies are made: so many times those that the world has.
const STREAMS_PER_CONFIGURED_MAX: usize = 3;

/// Blocks of a stream at its begin that are written in parts by several at once, in a world that does so.
const PARTED_BLOCKS: u64 = 3;

/// Most blocks read at once by checks.
const CHECK_BLOCKS: u64 = 16;

/// One client of a shard.
#[derive(Clone)]
pub(crate) struct SimClient {
    /// The world it lives in.
    pub world: Rc<World>,
    /// Whom it asks.
    pub shard: Rc<Shard>,
    /// Its number.
    pub id: ShardId,
    /// The way to the other shards.
    pub network: Rc<Network>,
    /// The bucket on its shard, in a world with objects.
    pub shelf: Option<Rc<BucketShard>>,
}

impl SimClient {
    /// The model of the shard.
    #[must_use]
    pub(crate) fn model(&self) -> &ShardModel {
        &self.world.models[usize::from(self.id.0)]
    }

    /// Sends `requests` random requests one after the other, or fewer when the shard stops.
    pub(crate) async fn work(self, mut rng: Rng, requests: u64) {
        for _ in 0..requests {
            if self.is_over() {
                return;
            }
            self.request(&mut rng).await;
        }
    }

    /// Whether no more requests are to be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.world.stopping.get() || self.world.is_violated() || self.shard.has_failed()
    }

    async fn request(&self, rng: &mut Rng) {
        let object_percent = self.world.config.object_percent;
        if object_percent > 0 && rng.below(100) < object_percent {
            self.object_request(rng).await;
            return;
        }
        if rng.below(100) < self.world.config.key_percent {
            self.key_request(rng).await;
            return;
        }
        let stream = {
            let streams = self.model().streams.borrow();
            Rc::clone(&streams[rng.index(streams.len())])
        };
        if rng.below(1000) < self.world.config.cut_per_mille {
            self.cut(rng, &stream).await;
            return;
        }
        let promise_per_mille = self.world.config.promise_per_mille;
        if promise_per_mille > 0 && rng.below(1000) < promise_per_mille {
            self.change_promise(rng, &stream).await;
            return;
        }
        if self.world.config.parts_percent > 0 && rng.below(100) < self.world.config.parts_percent {
            self.part_request(rng, &stream).await;
            return;
        }
        match rng.below(1000) {
            0..550 => self.write(rng, &stream).await,
            550..800 => self.read(rng, &stream).await,
            800..900 => self.trim(rng, &stream).await,
            900..960 => self.block_status(rng, &stream).await,
            960..970 => self.drop_stream(rng, &stream).await,
            970..975 => self.settle(self.shard.checkpoint().await, "checkpoint"),
            975..980 => self.diff(rng, &stream).await,
            _ => self.write_hot(rng, &stream).await,
        }
    }

    /// A place to write: often a hot one, often aligned.
    fn place(&self, rng: &mut Rng, len_max: u64) -> (u64, u64) {
        let config = &self.world.config;
        let hot = rng.below(100) < config.hot_percent;
        let blocks = if hot { config.stream_blocks.div_ceil(10) } else { config.stream_blocks };
        let block = rng.below(blocks);
        if rng.chance(2, 3) {
            let most = (len_max / BLOCK).max(1);
            let len = if rng.chance(1, 2) { 1 } else { 1 + rng.below(most) };
            return (block * BLOCK, len.min(config.stream_blocks - block) * BLOCK);
        }
        let offset = block * BLOCK + rng.below(BLOCK);
        let len = match rng.below(4) {
            0 => 1 + rng.below(16),
            1 => 1 + rng.below(BLOCK),
            2 => 512 * (1 + rng.below(16)),
            _ => 1 + rng.below(len_max),
        };
        (offset, len)
    }

    async fn write(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let config = &self.world.config;
        let (offset, len) = if rng.below(100) < config.large_percent {
            self.large_place(rng)
        } else {
            self.place(rng, config.write_bytes_max)
        };
        self.write_at(rng, stream, offset, len).await;
    }

    /// A place for a write that may bypass the lane, where the stream is that long; now and then with parts of blocks
    /// at its ends.
    fn large_place(&self, rng: &mut Rng) -> (u64, u64) {
        let blocks = self.world.config.stream_blocks;
        let len = (LARGE_BLOCKS_MIN + rng.below(3 * LARGE_BLOCKS_MIN)).min(blocks);
        let (offset, len) = (rng.below(blocks - len + 1) * BLOCK, len * BLOCK);
        if rng.chance(1, 8) { (offset + 512, len - 1024) } else { (offset, len) }
    }

    async fn write_hot(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        self.write_at(rng, stream, 0, BLOCK).await;
    }

    /// A request for one of a few blocks that others cover in part at the same time: some sectors of it, or all.
    async fn part_request(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let block = rng.below(self.world.config.stream_blocks.min(PARTED_BLOCKS));
        let sectors = BLOCK / SECTOR_BYTES as u64;
        let first = rng.below(sectors);
        let (first, count) = match rng.below(3) {
            0 => (0, sectors),
            _ => (first, 1 + rng.below(sectors - first)),
        };
        let (offset, len) =
            (block * BLOCK + first * SECTOR_BYTES as u64, count * SECTOR_BYTES as u64);
        match rng.below(10) {
            0..7 => self.write_at(rng, stream, offset, len).await,
            7..9 => self.read_at(stream, block * BLOCK, BLOCK).await,
            _ => self.clear_at(rng, stream, offset, len).await,
        }
    }

    /// Writes `len` bytes at `offset`, unless what is under way forbids it.
    pub(crate) async fn write_at(
        &self,
        rng: &mut Rng,
        stream: &Rc<ModelStream>,
        offset: u64,
        len: u64,
    ) {
        let config = &self.world.config;
        let fill_some = |data: &mut [u8], operation: u64| {
            if rng.chance(1, 12) {
                return;
            }
            fill_blocks(data, operation, offset, || Likeness {
                is_duplicate: rng.below(100) < config.duplicate_percent,
                is_compressible: rng.below(100) < config.compressible_percent,
            });
        };
        self.write_filled(stream, offset, len, fill_some).await;
    }

    /// Writes what `fill` makes for the operation; false when it was refused, or what is under way forbids it.
    pub(crate) async fn write_filled(
        &self,
        stream: &Rc<ModelStream>,
        offset: u64,
        len: u64,
        fill: impl FnOnce(&mut [u8], u64),
    ) -> bool {
        let coverage = Coverage::of(offset, len);
        let operation = self.world.fresh_operation();
        if !self.begin(stream, operation, &coverage).await {
            return false;
        }
        let mut data = AlignedBuf::zeroed(usize::try_from(len).expect("bounded"));
        fill(&mut data, operation);
        let now = self.world.tick();
        stream.model.borrow_mut().issue_write(operation, &coverage, &data, now);
        self.world.record("write", self.id, &[stream.id.get(), offset, len, operation]);
        let was_promised = stream.is_promised.get();
        let outcome = self.shard.write(stream.id, ByteOffset(offset), data.freeze()).await;
        if was_promised {
            self.judge_promised(stream, &outcome);
        }
        let is_acknowledged = outcome.is_ok();
        self.finish(stream, operation, &coverage, outcome, "write");
        is_acknowledged
    }

    /// Takes the blocks of a request; reads those whose contents have to be known.
    async fn begin(&self, stream: &Rc<ModelStream>, operation: u64, coverage: &Coverage) -> bool {
        if !stream.model.borrow_mut().begin(operation, coverage) {
            return false;
        }
        let unsettled = stream.model.borrow().unsettled(coverage);
        for block in unsettled {
            self.read_at(stream, block * BLOCK, BLOCK).await;
        }
        let settled = stream.model.borrow().unsettled(coverage).is_empty();
        if !settled {
            stream.model.borrow_mut().abandon(operation, coverage);
        }
        settled
    }

    fn finish(
        &self,
        stream: &ModelStream,
        operation: u64,
        coverage: &Coverage,
        outcome: Result<()>,
        what: &str,
    ) {
        let now = self.world.tick();
        stream.model.borrow_mut().finish(operation, coverage, outcome.is_ok(), now);
        self.world.record("answer", self.id, &[operation, u64::from(outcome.is_ok())]);
        self.settle(outcome, what);
    }

    /// Counts an answer, and judges an error.
    pub(crate) fn settle(&self, outcome: Result<()>, what: &str) {
        self.world.answered(outcome.is_ok());
        let Err(error) = outcome else { return };
        let excused = match error.kind() {
            ErrorKind::NoSpace => {
                let model = self.model();
                model.refused.set(model.refused.get() + 1);
                self.may_be_full()
            }
            ErrorKind::Closed => self.world.stopping.get(),
            _ => self.world.faulty.get(),
        };
        if !excused {
            self.world.violated(format!("shard {}: {what}: {error}", self.id));
        }
    }

    /// Whether so much may be live that a shard can be full.
    fn may_be_full(&self) -> bool {
        true
    }

    /// Whether a request that gives much back is left out.
    fn keeps(&self, rng: &mut Rng) -> bool {
        let percent = self.world.config.keeps_percent;
        percent > 0 && rng.below(100) < percent
    }

    async fn trim(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let (offset, len) = if self.keeps(rng) {
            self.place(rng, BLOCK)
        } else {
            match rng.below(20) {
                0 => (rng.below(self.world.config.stream_blocks) * BLOCK, HUGE),
                1 => (0, HUGE),
                _ => self.place(rng, 1 << 20),
            }
        };
        self.clear_at(rng, stream, offset, len).await;
    }

    /// Trims `len` bytes at `offset`, or writes zeros there, unless what is under way forbids it.
    pub(crate) async fn clear_at(
        &self,
        rng: &mut Rng,
        stream: &Rc<ModelStream>,
        offset: u64,
        len: u64,
    ) {
        let how = rng.below(3);
        // A trim may leave parts of blocks as they are; the other two may not.
        let (offset, len) = if how == 2 {
            let (start, end) = (offset.next_multiple_of(BLOCK), (offset + len) / BLOCK * BLOCK);
            (start, end.saturating_sub(start).max(BLOCK))
        } else {
            (offset, len)
        };
        let coverage = Coverage::of(offset, len);
        let operation = self.world.fresh_operation();
        if !self.begin(stream, operation, &coverage).await {
            return;
        }
        stream.model.borrow_mut().issue_zeros(operation, &coverage, self.world.tick());
        self.world.record("trim", self.id, &[stream.id.get(), offset, len, operation]);
        let range = ByteRange { start: offset, end: offset + len };
        let outcome = match how {
            0 => self.shard.write_zeroes(stream.id, range, true).await,
            1 => self.shard.write_zeroes(stream.id, range, false).await,
            _ => self.shard.trim(stream.id, range).await,
        };
        self.finish(stream, operation, &coverage, outcome, "trim");
    }

    async fn read(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let (offset, len) = self.place(rng, 128 << 10);
        self.read_at(stream, offset, len).await;
    }

    /// Reads and compares.
    pub(crate) async fn read_at(&self, stream: &Rc<ModelStream>, offset: u64, len: u64) {
        let (first, end) = (offset / BLOCK, (offset + len).div_ceil(BLOCK));
        let issued = self.world.tick();
        let length = usize::try_from(len).expect("bounded");
        let parts = match self.shard.read(stream.id, ByteOffset(offset), length).await {
            Ok(parts) => parts,
            Err(error) => {
                self.world.record("read failed", self.id, &[stream.id.get(), offset, len]);
                self.settle(Err(error), "read");
                return;
            }
        };
        self.world.answered(true);
        let bytes = join(&parts);
        if bytes.len() != length {
            self.world.violated(format!("read of {length} bytes gave {}", bytes.len()));
            return;
        }
        if stream.dropped.get() {
            return;
        }
        let now = self.world.tick();
        let mut model = stream.model.borrow_mut();
        for block in first..end {
            let start = offset.max(block * BLOCK);
            let stop = (offset + len).min((block + 1) * BLOCK);
            let at = |from: u64, base: u64| usize::try_from(from - base).expect("inside");
            let got = &bytes[at(start, offset)..at(stop, offset)];
            let within = at(start, block * BLOCK)..at(stop, block * BLOCK);
            let allowed = match model.get(block) {
                None => BlockContent::Zero.is_at(within.start, got),
                Some(_) => model.block(block).observe(&within, got, issued, now),
            };
            if !allowed {
                self.world.violated(format!(
                    "shard {} stream {} block {block} reads as {} at {issued}..{now}, possible: {}",
                    self.id,
                    stream.id,
                    describe(got),
                    model.block(block).describe(issued)
                ));
                return;
            }
        }
        self.world.record("read", self.id, &[stream.id.get(), offset, len, issued]);
    }

    async fn block_status(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let blocks = self.world.config.stream_blocks;
        let first = rng.below(blocks);
        let end = if rng.chance(1, 10) { HUGE / BLOCK } else { first + 1 + rng.below(blocks) };
        let max = 1 + rng.index(64);
        let issued = self.world.tick();
        let model_end = end.min(blocks + 512);
        let range = ByteRange { start: first * BLOCK, end: end * BLOCK };
        let status = match self.shard.block_status(stream.id, range, max).await {
            Ok(status) => status,
            Err(error) => return self.settle(Err(error), "block status"),
        };
        self.world.answered(true);
        if status.is_empty() || status.len() > max {
            self.world.violated(format!("block status of {range:?} gave {} runs", status.len()));
            return;
        }
        if stream.dropped.get() {
            return;
        }
        let mut block = first;
        let model = stream.model.borrow();
        for run in &status {
            let run_end = block + run.len / BLOCK;
            for at in block..run_end.min(model_end) {
                let known = model.get(at);
                let zero = known.is_none_or(|known| known.may_be_zero(issued));
                let allowed = if run.mapped == BlockMapping::Data { known.is_some() } else { zero };
                if !allowed {
                    self.world.violated(format!(
                        "shard {} stream {} block {at} has status {:?} at {issued}",
                        self.id, stream.id, run.mapped
                    ));
                    return;
                }
            }
            block = run_end;
        }
        if block > end {
            self.world.violated(format!("block status of {range:?} goes on to {block}"));
        }
    }

    pub(crate) async fn drop_stream(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        if self.keeps(rng) {
            return;
        }
        let fresh = self.world.fresh_stream();
        {
            let mut streams = self.model().streams.borrow_mut();
            let Some(index) = streams.iter().position(|other| other.id == stream.id) else {
                return;
            };
            streams[index] = fresh;
        }
        self.drop_taken(stream).await;
    }

    /// Takes a stream out of those that are worked on; false when somebody else has.
    pub(crate) fn take_out(&self, stream: &ModelStream) -> bool {
        let mut streams = self.model().streams.borrow_mut();
        let index = streams.iter().position(|other| other.id == stream.id);
        index.map(|index| streams.swap_remove(index)).is_some()
    }

    /// Drops a stream that was taken out.
    pub(crate) async fn drop_taken(&self, stream: &ModelStream) {
        stream.dropped.set(true);
        stream.is_promised.set(false);
        self.world.record("drop", self.id, &[stream.id.get()]);
        let outcome = self.shard.drop_stream(stream.id).await;
        self.settle(outcome, "drop");
    }

    /// Cuts a stream, now and then together with another one; the copies live on as streams.
    async fn cut(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let mut sources = vec![Rc::clone(stream)];
        {
            let streams = self.model().streams.borrow();
            let other = &streams[rng.index(streams.len())];
            if other.id != stream.id && rng.chance(1, 3) {
                sources.push(Rc::clone(other));
            }
        }
        self.cut_together(&sources).await;
        self.thin_out(rng).await;
    }

    /// Cuts streams at one time; the copies are streams from then on.
    pub(crate) async fn cut_together(&self, sources: &[Rc<ModelStream>]) {
        let copies: Vec<_> = sources.iter().map(|_| self.world.fresh_stream()).collect();
        let ids = || copies.iter().map(|copy| copy.id);
        self.model().copies.borrow_mut().extend(ids());
        let pairs: Vec<_> = sources
            .iter()
            .zip(ids())
            .map(|(source, copy)| CutPair { source: source.id, copy })
            .collect();
        let id = CutId(self.world.fresh_operation());
        let issued = self.world.tick();
        for pair in &pairs {
            self.world.record("cut", self.id, &[pair.source.get(), pair.copy.get()]);
        }
        let outcome = self.shard.cut(id, &pairs).await;
        let now = self.world.tick();
        for (source, copy) in sources.iter().zip(&copies) {
            self.model().copies.borrow_mut().retain(|id| *id != copy.id);
            if outcome.is_ok() && !source.dropped.get() {
                *copy.model.borrow_mut() = source.model.borrow().copied(issued, now);
                self.model().streams.borrow_mut().push(Rc::clone(copy));
            }
        }
        self.shard.release_cut(id);
        self.world.record("answer", self.id, &[id.0, u64::from(outcome.is_ok())]);
        self.settle(outcome, "cut");
    }

    /// Drops a stream when there are many.
    async fn thin_out(&self, rng: &mut Rng) {
        let gone = {
            let mut streams = self.model().streams.borrow_mut();
            if streams.len() <= STREAMS_PER_CONFIGURED_MAX * self.world.config.streams {
                return;
            }
            let index = rng.index(streams.len());
            streams.swap_remove(index)
        };
        self.drop_taken(&gone).await;
    }

    /// Compares two streams: blocks that are said to be equal can be.
    async fn diff(&self, rng: &mut Rng, stream: &Rc<ModelStream>) {
        let other = {
            let streams = self.model().streams.borrow();
            Rc::clone(&streams[rng.index(streams.len())])
        };
        let blocks = self.world.config.stream_blocks;
        let first = rng.below(blocks);
        let issued = self.world.tick();
        let range =
            ByteRange { start: first * BLOCK, end: (first + 1 + rng.below(blocks)) * BLOCK };
        let diff = self.shard.diff(stream.id, other.id, range, 1 + rng.index(64)).await;
        let diff = match diff {
            Ok(diff) => diff,
            Err(error) => return self.settle(Err(error), "diff"),
        };
        self.world.answered(true);
        if stream.dropped.get() || other.dropped.get() {
            return;
        }
        let (mine, theirs) = (stream.model.borrow(), other.model.borrow());
        let contents = |model: &StreamModel, block| {
            model.get(block).cloned().unwrap_or_else(|| BlockModel::new(false))
        };
        let mut block = first;
        for run in &diff {
            let end = block + run.len / BLOCK;
            for at in (block..end).filter(|_| !run.differs) {
                let (a, b) = (contents(&mine, at), contents(&theirs, at));
                if !a.may_equal(&b, issued) {
                    self.world.violated(format!(
                        "shard {} streams {} and {} differ in block {at}, diff at {issued} says no: {} / {}",
                        self.id,
                        stream.id,
                        other.id,
                        a.describe(issued),
                        b.describe(issued),
                    ));
                    return;
                }
            }
            block = end;
        }
    }

    async fn key_request(&self, rng: &mut Rng) {
        let key = format!("{}/{:03}", rng.below(3), rng.below(120)).into_bytes();
        match rng.below(10) {
            0..5 => {
                let operation = self.world.fresh_operation();
                let mut value = vec![0; rng.index(300)];
                fill(&mut value, operation, 0);
                self.change_key(key, Some(value), operation).await;
            }
            5..7 => self.change_key(key, None, self.world.fresh_operation()).await,
            7..9 => self.get_key(&key).await,
            _ => self.scan_keys(rng, &key).await,
        }
    }

    async fn change_key(&self, key: Vec<u8>, value: Option<Vec<u8>>, operation: u64) {
        let now = self.world.tick();
        self.with_key(&key, |register| register.issue(operation, value.clone(), now));
        self.world.record("key", self.id, &[operation, u64::from(value.is_some())]);
        let outcome = match &value {
            Some(value) => self.shard.key_put(&key, value).await,
            None => self.shard.key_delete(&key).await,
        };
        let now = self.world.tick();
        self.with_key(&key, |register| match &outcome {
            Ok(()) => register.acknowledge(operation, now),
            Err(_) => register.give_up(operation, now),
        });
        self.world.record("answer", self.id, &[operation, u64::from(outcome.is_ok())]);
        self.settle(outcome, "change of a key");
    }

    fn with_key<T>(&self, key: &[u8], act: impl FnOnce(&mut Register<Option<Vec<u8>>>) -> T) -> T {
        let mut keys = self.model().keys.borrow_mut();
        act(keys.entry(key.to_vec()).or_insert_with(|| Register::new(None)))
    }

    /// Reads a key and compares.
    pub(crate) async fn get_key(&self, key: &[u8]) {
        let issued = self.world.tick();
        let value = match self.shard.key_get(key).await {
            Ok(value) => value,
            Err(error) => return self.settle(Err(error), "read of a key"),
        };
        self.world.answered(true);
        self.observe_key(key, &value, issued);
    }

    fn observe_key(&self, key: &[u8], value: &Option<Vec<u8>>, issued: u64) {
        let now = self.world.tick();
        let allowed =
            self.with_key(key, |register| register.observe(|known| known == value, issued, now));
        if !allowed {
            self.world.violated(format!(
                "shard {} key {} is {:?} at {issued}..{now}, possible: {:?}",
                self.id,
                String::from_utf8_lossy(key),
                value.as_ref().map(|value| describe(value)),
                self.with_key(key, |register| {
                    let possible = register.possible_since(issued);
                    possible
                        .map(|value| value.as_ref().map(|value| describe(value)))
                        .collect::<Vec<_>>()
                }),
            ));
        }
    }

    async fn scan_keys(&self, rng: &mut Rng, key: &[u8]) {
        let prefix = if rng.chance(1, 2) { key[..2].to_vec() } else { Vec::new() };
        let after = rng.chance(1, 2).then(|| key.to_vec());
        let max = if rng.chance(1, 3) { 1000 } else { 1 + rng.index(40) };
        self.check_keys(&prefix, after.as_deref(), max).await;
    }

    /// Lists keys and compares.
    pub(crate) async fn check_keys(&self, prefix: &[u8], after: Option<&[u8]>, max: usize) {
        let issued = self.world.tick();
        let inside = |key: &[u8]| key.starts_with(prefix) && after.is_none_or(|after| key > after);
        let known: Vec<_> = {
            let keys = self.model().keys.borrow();
            keys.keys().filter(|key| inside(key)).cloned().collect()
        };
        let found = match self.shard.key_scan(prefix, after, max).await {
            Ok(found) => found,
            Err(error) => return self.settle(Err(error), "scan"),
        };
        self.world.answered(true);
        if found.len() > max
            || !found.is_sorted_by(|a, b| a.0 < b.0)
            || !found.iter().all(|(key, _)| inside(key))
        {
            self.world.violated(format!("scan gave {} keys, unsorted or outside", found.len()));
            return;
        }
        let last = if found.len() == max { found.last().map(|(key, _)| key.clone()) } else { None };
        for key in &known {
            if last.as_ref().is_some_and(|last| key > last) {
                break;
            }
            let at = found.binary_search_by(|(other, _)| other.cmp(key)).ok();
            let value = at.map(|at| found[at].1.clone());
            self.observe_key(key, &value, issued);
        }
        for (key, _) in &found {
            let is_of_bucket = key
                .get(1..9)
                .map(|id| StreamId::new(u64::from_be_bytes(id.try_into().expect("8 bytes"))));
            if self.model().bucket.get().is_some() && is_of_bucket == self.model().bucket.get() {
                continue;
            }
            if !self.model().keys.borrow().contains_key(key) {
                self.world.violated(format!("key {} was never put", String::from_utf8_lossy(key)));
            }
        }
    }

    /// Compares what may be one thing or another, and about one part in `sample` of everything that was ever written.
    pub(crate) async fn check_all(&self, rng: &mut Rng, sample: u64) {
        let streams = self.model().streams.borrow().clone();
        for stream in streams {
            let blocks: Vec<(u64, bool)> = stream.model.borrow().written().collect();
            let mut rest = blocks.as_slice();
            while let Some(&(first, _)) = rest.first() {
                let run = (first..first + CHECK_BLOCKS).zip(rest);
                let count = run.take_while(|(at, (block, _))| at == block).count();
                let (run, behind) = rest.split_at(count);
                rest = behind;
                if run.iter().all(|(_, settled)| *settled) && !rng.chance(1, sample) {
                    continue;
                }
                self.read_at(&stream, first * BLOCK, count as u64 * BLOCK).await;
                if self.world.is_violated() {
                    return;
                }
            }
        }
        if rng.chance(1, sample) {
            self.check_keys(b"", None, usize::MAX).await;
        }
        self.check_objects(rng).await;
    }
}

/// The bytes of parts.
fn join(parts: &[ReadPart]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(ReadPart::len).sum());
    for part in parts {
        match part {
            ReadPart::Zero(len) => bytes.resize(bytes.len() + len, 0),
            ReadPart::Data(data) => bytes.extend_from_slice(data),
        }
    }
    bytes
}
