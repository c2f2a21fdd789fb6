//! Cuts: from one moment on a stream of its own, the copy, holds what another one, the source, holds at it. Snapshots,
//! clones and rollbacks are made of them.
//!
//! ```text
//!  journaled ──drained, behind all older records──▶ in a data segment ──applied──▶ the copy has the source's map
//!      └─ answers of younger writes to the source are held back until the cut is released
//! ```
//!
//! CUT-1. A cut has a number among the writes; the copy holds exactly what older ones left, whenever they are drained.
//! CUT-2. A record may be left out of segments for a newer one only if no cut of its stream lies between them.
//! CUT-3. Nothing bypasses the lane on a stream with a cut in the lane: it would be applied before the cut.
//! CUT-4. The copy's map is asked only once the cut is applied; what was written to the copy itself is found before.
//! CUT-5. Neither stream changes a page, nor lets a chunk die, that was born before the cut: both may be the other's as
//!     well. Mark frees them.
//! CUT-6. A cut that is applied again, after a crash, changes nothing.

mod state;

use std::ops::Range;
use std::rc::Rc;

use varve_logstore::format::record::{RecordKind, encode_cut};
use varve_logstore::lane::JournalFrame;
use varve_logstore::planted::{Bug, planted};
use varve_stdx::AlignedBuf;
use varve_types::{BlockIndex, ByteRange, StreamId};

use crate::cut::state::PendingCut;
use crate::read::{STATUS_TURNS_MAX, bytes_of_runs};
use crate::tree::{self, DiffLimits, MAP_SLOTS, Map};
use crate::trees::{Stop, Trees};
use crate::{Result, Shard};

pub(crate) use state::Cuts;
pub use state::{CutId, CutPair};

/// Blocks or equal subtrees looked at before other tasks get a turn: some 50 µs of work.
const DIFF_STEPS_MAX: usize = 512;

const _: () = assert!(DIFF_STEPS_MAX >= MAP_SLOTS, "a step gets past a page");

/// Consecutive bytes that differ between two streams, or do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiffRun {
    /// Bytes.
    pub len: u64,
    /// Whether they may differ: they are stored apart.
    pub differs: bool,
}

impl Shard {
    /// Cuts streams: each `copy` holds what its `source` holds now. Durable on return. Writes to the sources that are
    /// admitted from now on are carried out, but answered only after [`Self::release_cut`], which is due whatever this
    /// returns: so a cut of several shards is one instant.
    ///
    /// # Errors
    /// `Unavailable` when the shard closed before the cut was durable: then it may or may not have happened; `NoSpace`
    /// when what is promised to a source could not be kept after it: [`Self::prepare_cut`] finds that out before
    /// anything is done.
    pub async fn cut(&self, id: CutId, pairs: &[CutPair]) -> Result<()> {
        self.check_open()?;
        let mut last = None;
        for pair in pairs {
            // One by one, as there may be more of them than credits: the first ones give theirs back when they are
            // applied. From the first on answers are held back, so the cuts are one instant for whoever waits for
            // answers.
            let credits = self.admit_record().await?;
            self.reservations_bear_cut(&[pair.source])?;
            credits.keep();
            self.reservations.cut_begins(pair.source);
            self.admission.cuts.holds.borrow_mut().push((id, pair.source));
            last = Some(self.push_cut(*pair));
        }
        match last {
            Some(frame) => self.wait_frame(&frame).await,
            None => Ok(()),
        }
    }

    /// Numbers a cut and appends it to the lane (CUT-1).
    fn push_cut(&self, pair: CutPair) -> Rc<JournalFrame> {
        let payload = AlignedBuf::from_slice(&encode_cut(pair.copy));
        let (wseq, frame) = self.append_payload(RecordKind::Cut, pair.source, payload);
        let cut = PendingCut { pair, wseq, frame: Rc::clone(&frame), is_drained: false };
        let mut pending = self.admission.cuts.pending.borrow_mut();
        assert!(
            pending.last().is_none_or(|last| last.wseq < wseq),
            "cuts are in the order of their numbers"
        ); // CUT-1
        pending.push(cut);
        frame
    }

    /// Lets the answers go that a cut held back. Does nothing for an id that is unknown.
    pub fn release_cut(&self, id: CutId) {
        self.admission.cuts.holds.borrow_mut().retain(|(cut, _)| *cut != id);
        self.admission.cuts.released.notify_all();
    }

    /// Waits until a stream's map may be asked (CUT-4).
    pub(crate) async fn wait_cut(&self, stream: StreamId) -> Result<()> {
        while let Some(frame) = self.admission.cuts.pending_frame(stream)
            && !planted(Bug::CopyReadEarly)
        {
            self.wait_frame(&frame).await?; // Before that there is nothing to drain.
            self.apply_acknowledged().await?;
        }
        Ok(())
    }

    /// Which bytes of a range are stored apart in two streams, in at most `max` runs; may stop before the end of the
    /// range. Pages that both have are not looked into, and what is not in the maps yet counts as stored apart. What is
    /// written meanwhile is told or not.
    ///
    /// # Errors
    /// `Corrupt` when a map cannot be read.
    pub async fn diff(
        &self,
        from: StreamId,
        to: StreamId,
        range: ByteRange,
        max: usize,
    ) -> Result<Vec<DiffRun>> {
        self.check_open()?;
        self.wait_cut(from).await?;
        self.wait_cut(to).await?;
        let Range { start: first, end } = range.touched_blocks();
        let mut runs = Vec::new();
        let (mut block, mut turns) = (first, 0);
        while block < end && runs.len() <= max && turns < STATUS_TURNS_MAX {
            turns += 1;
            let limits = DiffLimits { steps: DIFF_STEPS_MAX, runs: max + 1 };
            let step = |trees: &mut Trees| {
                self.diff_step(trees, [from, to], block..end, limits, &mut runs)
            };
            block = self.with_pages(step).await?;
            assert!(block <= end, "a comparison stays in its range");
            self.reactor.yield_now().await;
        }
        debug_assert!(
            runs.windows(2).all(|pair| pair[0].differs != pair[1].differs),
            "runs are whole"
        );
        runs.truncate(max);
        let runs = runs.into_iter().map(|run| (run.blocks, run.differs));
        Ok(bytes_of_runs(range, runs).map(|(len, differs)| DiffRun { len, differs }).collect())
    }

    /// Compares blocks from the first on, as far as `limits` allow; returns where to go on.
    fn diff_step(
        &self,
        trees: &mut Trees,
        streams: [StreamId; 2],
        blocks: Range<BlockIndex>,
        limits: DiffLimits,
        runs: &mut Vec<tree::DiffRun>,
    ) -> std::result::Result<BlockIndex, Stop> {
        let [from, to] = streams;
        trees.open_stream(from)?;
        trees.open_stream(to)?;
        let buffer = self.admission.buffer.borrow();
        let spans = streams.map(|stream| buffer.span(stream, blocks.start, blocks.end));
        let until = spans[0].1.min(spans[1].1);
        assert!(until > blocks.start && until <= blocks.end, "a span holds a block of the range");
        if spans.iter().any(|(pending, _)| pending.is_some()) {
            let added = tree::DiffRun::add(runs, limits.runs, true, until - blocks.start);
            return Ok(if added { until } else { blocks.start });
        }
        let waiting =
            streams.iter().filter_map(|stream| trees.deltas.first_in(*stream, blocks.start..until));
        let until = match waiting.min() {
            // As what is buffered: its place in the map is not known yet.
            Some(block) if block == blocks.start => {
                let added = tree::DiffRun::add(runs, limits.runs, true, 1);
                return Ok(if added { block + 1 } else { block });
            }
            Some(block) => block,
            None => until,
        };
        let nothing = Map::new(from, trees.shard);
        let map_of = |id| trees.streams.get(&id).map_or(&nothing, |stream| &stream.map);
        Ok(map_of(from).diff(map_of(to), &trees.cache, blocks.start..until, limits, runs)?)
    }
}
