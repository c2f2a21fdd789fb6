//! Plain models of what a shard holds: blocks of streams and keys, each a [`Register`] or several, and who is at work
//! on them.
//!
//! SIM-MODEL-1. A request that covers a part of a block has the block for itself, unless the block is modelled by
//!     sectors and the part consists of whole ones (SIM-BLOCK-1).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

use varve_engine::BLOCK_BYTES;
use varve_types::StreamId;

use crate::block::{BlockModel, is_of_sectors};
use crate::content::BlockContent;
use crate::objects::ObjectModel;
use crate::register::Register;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// What a key may hold.
pub(crate) type KeyRegister = Register<Option<Vec<u8>>>;

/// A request under way that covers whole blocks.
#[derive(Clone, Debug)]
struct Active {
    operation: u64,
    blocks: Range<u64>,
    /// Blocks covered in part that others may cover too.
    shared: Vec<u64>,
    /// For trims: when it was issued; blocks that come into being meanwhile may be trimmed.
    trims_since: Option<u64>,
}

/// A stream's blocks.
#[derive(Clone, Default)]
pub(crate) struct StreamModel {
    blocks: BTreeMap<u64, BlockModel>,
    /// Of so many blocks, one is modelled as a whole and the others by sectors; 0: all as a whole.
    whole_each: u64,
    exclusive: BTreeSet<u64>,
    active: Vec<Active>,
}

/// The blocks that a byte range covers.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    /// Blocks covered in part, with the part: at most two.
    pub parts: Vec<(u64, Range<usize>)>,
    /// Blocks covered whole.
    pub whole: Range<u64>,
}

impl Coverage {
    /// Of `len` bytes at `offset`.
    #[must_use]
    pub(crate) fn of(offset: u64, len: u64) -> Self {
        let end = offset + len;
        let within = |at: u64| usize::try_from(at % BLOCK).expect("inside a block");
        let mut parts = Vec::new();
        let whole = offset.div_ceil(BLOCK)..end / BLOCK;
        if whole.start > whole.end {
            parts.push((end / BLOCK, within(offset)..within(end)));
            return Self { parts, whole: 0..0 };
        }
        if !offset.is_multiple_of(BLOCK) {
            parts.push((offset / BLOCK, within(offset)..BLOCK_BYTES));
        }
        if !end.is_multiple_of(BLOCK) {
            parts.push((end / BLOCK, 0..within(end)));
        }
        Self { parts, whole }
    }
}

impl StreamModel {
    /// A stream of zeros. Of `whole_each` blocks one is modelled as a whole and the others by sectors; 0: all as a
    /// whole.
    pub(crate) fn new(whole_each: u64) -> Self {
        Self { whole_each, ..Self::default() }
    }

    fn is_by_sectors(&self, block: u64) -> bool {
        self.whole_each > 0 && !block.is_multiple_of(self.whole_each)
    }

    /// Whether others may cover the block while a request covers this part of it (SIM-MODEL-1).
    fn is_shared(&self, block: u64, part: &Range<usize>) -> bool {
        self.is_by_sectors(block) && is_of_sectors(part)
    }

    /// Starts a request if nothing that is under way forbids it (SIM-MODEL-1).
    pub(crate) fn begin(&mut self, operation: u64, coverage: &Coverage) -> bool {
        let is_covered = |block: &u64| {
            let covers =
                |active: &Active| active.blocks.contains(block) || active.shared.contains(block);
            self.active.iter().any(covers)
        };
        let part_is_free = |(block, part): &(u64, Range<usize>)| {
            !self.exclusive.contains(block) && (self.is_shared(*block, part) || !is_covered(block))
        };
        let whole_is_free = self.exclusive.range(coverage.whole.clone()).next().is_none();
        if !whole_is_free || !coverage.parts.iter().all(part_is_free) {
            return false;
        }
        let (shared, exclusive): (Vec<_>, Vec<_>) =
            coverage.parts.iter().partition(|(block, part)| self.is_shared(*block, part));
        let shared = shared.iter().map(|(block, _)| *block).collect();
        self.exclusive.extend(exclusive.iter().map(|(block, _)| *block));
        let blocks = coverage.whole.clone();
        self.active.push(Active { operation, blocks, shared, trims_since: None });
        true
    }

    fn end(&mut self, operation: u64, coverage: &Coverage) {
        self.active.retain(|active| active.operation != operation);
        for (block, part) in &coverage.parts {
            if !self.is_shared(*block, part) {
                self.exclusive.remove(block);
            }
        }
    }

    /// The model of a block, which comes into being.
    pub(crate) fn block(&mut self, block: u64) -> &mut BlockModel {
        let by_sectors = self.is_by_sectors(block);
        let active = &self.active;
        self.blocks.entry(block).or_insert_with(|| {
            let mut model = BlockModel::new(by_sectors);
            for active in active.iter().filter(|active| active.blocks.contains(&block)) {
                if let Some(issued) = active.trims_since {
                    model.issue(active.operation, &BlockContent::Zero, issued);
                }
            }
            model
        })
    }

    /// The model of a block, if it was ever written.
    #[must_use]
    pub(crate) fn get(&self, block: u64) -> Option<&BlockModel> {
        self.blocks.get(&block)
    }

    /// A copy that was made between `since` and `now`.
    pub(crate) fn copied(&self, since: u64, now: u64) -> Self {
        let copied = |(block, model): (&u64, &BlockModel)| (*block, model.copied(since, now));
        Self { blocks: self.blocks.iter().map(copied).collect(), ..Self::new(self.whole_each) }
    }

    /// Numbers of the blocks ever written, and whether it is known what they hold.
    pub(crate) fn written(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.blocks.iter().map(|(block, model)| (*block, model.is_settled()))
    }

    /// Blocks that the request has for itself as it covers a part of them, and whose contents are not settled: read
    /// them before [`Self::issue_write`].
    #[must_use]
    pub(crate) fn unsettled(&self, coverage: &Coverage) -> Vec<u64> {
        let unsettled = |(block, part): &&(u64, Range<usize>)| {
            !self.is_shared(*block, part)
                && self.blocks.get(block).is_some_and(|model| !model.is_settled())
        };
        coverage.parts.iter().filter(unsettled).map(|(block, _)| *block).collect()
    }

    /// Enters `data`, written at the begin of the coverage.
    pub(crate) fn issue_write(
        &mut self,
        operation: u64,
        coverage: &Coverage,
        data: &[u8],
        now: u64,
    ) {
        let mut at = 0;
        let mut take = |len: usize| {
            at += len;
            &data[at - len..at]
        };
        let mut parts = coverage.parts.iter();
        let head = coverage.parts.first().filter(|(block, part)| {
            coverage.whole.is_empty() || part.end == BLOCK_BYTES && *block < coverage.whole.start
        });
        if let Some((block, part)) = head {
            self.block(*block).issue_part(operation, part, take(part.len()), now);
            parts.next();
        }
        for block in coverage.whole.clone() {
            let content = BlockContent::Data(take(BLOCK_BYTES).into());
            self.block(block).issue(operation, &content, now);
        }
        for (block, part) in parts {
            self.block(*block).issue_part(operation, part, take(part.len()), now);
        }
        assert_eq!(at, data.len(), "the coverage is that of the data");
    }

    /// Enters zeros over the coverage.
    pub(crate) fn issue_zeros(&mut self, operation: u64, coverage: &Coverage, now: u64) {
        for (block, part) in &coverage.parts {
            self.block(*block).issue_part(operation, part, &vec![0; part.len()], now);
        }
        if let Some(active) = self.active.iter_mut().find(|active| active.operation == operation) {
            active.trims_since = Some(now);
        }
        for (_, model) in self.blocks.range_mut(coverage.whole.clone()) {
            model.issue(operation, &BlockContent::Zero, now);
        }
    }

    /// The request was answered; `happened` is unknown when it failed.
    pub(crate) fn finish(&mut self, operation: u64, coverage: &Coverage, happened: bool, now: u64) {
        let parts = coverage.parts.iter().map(|(block, _)| *block);
        let whole = self.blocks.range(coverage.whole.clone()).map(|(block, _)| *block);
        let blocks: Vec<u64> = parts.chain(whole).collect();
        for block in blocks {
            let Some(model) = self.blocks.get_mut(&block) else { continue };
            if happened {
                model.acknowledge(operation, now);
            } else {
                model.give_up(operation, now);
            }
        }
        self.end(operation, coverage);
    }

    /// Gives up a request that was begun and never issued.
    pub(crate) fn abandon(&mut self, operation: u64, coverage: &Coverage) {
        self.end(operation, coverage);
    }

    /// The same stream after a power cut now.
    fn after_cut(&self, now: u64) -> Self {
        let cut = |(block, model): (&u64, &BlockModel)| (*block, model.after_cut(now));
        Self { blocks: self.blocks.iter().map(cut).collect(), ..Self::new(self.whole_each) }
    }

    /// Power was cut.
    pub(crate) fn cut(&mut self, now: u64) {
        self.exclusive.clear();
        self.active.clear();
        for model in self.blocks.values_mut() {
            model.cut(now);
        }
    }
}

/// A stream that a model owns.
pub(crate) struct ModelStream {
    /// Its id.
    pub id: StreamId,
    /// Its contents.
    pub model: RefCell<StreamModel>,
    /// Somebody asked for its end: from then on it may read as anything.
    pub(crate) dropped: Cell<bool>,
    /// Space for all that is written to it was promised, durably, and nobody has asked to take it back.
    pub(crate) is_promised: Cell<bool>,
    /// Somebody changes what is promised to it: one at a time, as whoever owns streams does.
    pub(crate) promise_changes: Cell<bool>,
}

/// What one shard holds.
#[derive(Default)]
pub(crate) struct ShardModel {
    /// Streams that are owned.
    pub streams: RefCell<Vec<Rc<ModelStream>>>,
    /// Streams that are about to be owned: copies under way.
    pub copies: RefCell<Vec<StreamId>>,
    /// Keys ever used.
    pub keys: RefCell<BTreeMap<Vec<u8>, KeyRegister>>,
    /// The bucket's stream, in a world with objects: the same on all shards.
    pub bucket: Cell<Option<StreamId>>,
    /// Objects ever used.
    pub objects: ObjectModel,
    /// Requests for space that were refused since the last answer.
    pub refused: Cell<u64>,
}

/// What a shard held at one moment.
pub(crate) struct ShardSnapshot {
    streams: Vec<StreamSnapshot>,
    keys: BTreeMap<Vec<u8>, KeyRegister>,
}

#[derive(Clone)]
struct StreamSnapshot {
    id: StreamId,
    model: StreamModel,
    is_dropped: bool,
    is_promised: bool,
}

impl StreamSnapshot {
    fn new(stream: &ModelStream, model: StreamModel) -> Self {
        let (is_dropped, is_promised) = (stream.dropped.get(), stream.is_promised.get());
        Self { id: stream.id, model, is_dropped, is_promised }
    }

    fn into_stream(self) -> Rc<ModelStream> {
        Rc::new(ModelStream {
            id: self.id,
            model: RefCell::new(self.model),
            dropped: Cell::new(self.is_dropped),
            is_promised: Cell::new(self.is_promised),
            promise_changes: Cell::new(false),
        })
    }
}

impl ShardSnapshot {
    /// Another model, which holds that.
    pub(crate) fn into_model(self) -> ShardModel {
        let streams = self.streams.into_iter().map(StreamSnapshot::into_stream).collect();
        let (streams, keys) = (RefCell::new(streams), RefCell::new(self.keys));
        ShardModel { streams, keys, ..ShardModel::default() }
    }
}

impl ShardModel {
    /// What it holds now: streams and keys, in a world without objects.
    pub(crate) fn snapshot(&self) -> ShardSnapshot {
        self.snapshot_with(StreamModel::clone, KeyRegister::clone)
    }

    /// What it would hold after a power cut now: what is under way has happened or not.
    pub(crate) fn after_cut(&self, now: u64) -> ShardSnapshot {
        self.snapshot_with(|stream| stream.after_cut(now), |key| key.after_cut(now))
    }

    fn snapshot_with(
        &self,
        copy_stream: impl Fn(&StreamModel) -> StreamModel,
        copy_key: impl Fn(&KeyRegister) -> KeyRegister,
    ) -> ShardSnapshot {
        assert!(self.bucket.get().is_none(), "objects are not part of snapshots");
        let streams = self.streams.borrow();
        let copy = |stream: &Rc<ModelStream>| {
            StreamSnapshot::new(stream, copy_stream(&stream.model.borrow()))
        };
        let keys = self.keys.borrow();
        let keys = keys.iter().map(|(key, register)| (key.clone(), copy_key(register)));
        ShardSnapshot { streams: streams.iter().map(copy).collect(), keys: keys.collect() }
    }

    /// Has it hold what it held then.
    pub(crate) fn restore(&self, snapshot: &ShardSnapshot) {
        let streams = snapshot.streams.iter().cloned().map(StreamSnapshot::into_stream);
        self.streams.replace(streams.collect());
        self.keys.replace(snapshot.keys.clone());
        self.copies.borrow_mut().clear();
    }

    /// Power was cut.
    pub(crate) fn cut(&self, now: u64) {
        self.copies.borrow_mut().clear();
        for stream in self.streams.borrow().iter() {
            stream.promise_changes.set(false);
            stream.model.borrow_mut().cut(now);
        }
        for register in self.keys.borrow_mut().values_mut() {
            register.cut(now);
        }
        for register in self.objects.borrow_mut().values_mut() {
            register.cut(now);
        }
    }
}
