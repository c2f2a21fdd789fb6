//! Exports in memory: for tests, fuzzing, and measuring a front-end without a disk.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use varve_stdx::{AlignedBuf, BufSlice, ReadPart};
use varve_types::{BlockIndex, ByteOffset, ErrorKind};

use crate::export::{Change, Export, ExportInfo, Exports, Extent, ExtentKind};

/// Bytes of a block.
const BLOCK: u64 = 4096;

/// Most blocks that one request makes zeros that stay allocated, some 100 MiB of memory; those of a longer range become
/// holes.
const ZERO_BLOCKS_MAX: u64 = 1 << 20;

#[derive(Clone)]
enum Block {
    Zero,
    Data(BufSlice),
}

struct State {
    info: ExportInfo,
    /// What is not a hole.
    blocks: BTreeMap<BlockIndex, Block>,
}

/// A sparse block device in memory. Clones share it, also between threads: the lock is the innermost one and is
/// never held across an await.
#[derive(Clone)]
pub struct MemoryExport(Arc<Mutex<State>>);

/// A part of a range that lies in one block.
struct BlockPiece {
    block: BlockIndex,
    /// First byte within the block.
    skip: usize,
    len: usize,
}

fn pieces(offset: ByteOffset, len: u64) -> impl Iterator<Item = BlockPiece> {
    let end = offset.0 + len;
    let mut at = offset.0;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (block, skip) = (ByteOffset(at).block(), ByteOffset(at).within_block());
        let len = (BLOCK - skip as u64).min(end - at);
        at += len;
        Some(BlockPiece { block, skip, len: small(len) })
    })
}

fn small(value: u64) -> usize {
    usize::try_from(value).expect("at most a block or a request")
}

impl MemoryExport {
    /// `size_bytes` of holes.
    #[must_use]
    pub fn new(size_bytes: u64) -> Self {
        let info = ExportInfo { size_bytes, block_bytes: 4096, read_only: false, exclusive: false };
        Self(Arc::new(Mutex::new(State { info, blocks: BTreeMap::new() })))
    }

    /// Changes the size; what is cut off is lost.
    pub fn resize(&self, size_bytes: u64) {
        let mut state = self.lock();
        state.info.size_bytes = size_bytes;
        state.blocks.split_off(&ByteOffset(size_bytes).next_block());
    }

    /// Refuses changes from now on, or no longer.
    pub fn set_read_only(&self, read_only: bool) {
        self.lock().info.read_only = read_only;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No operation leaves the map half changed, so a panic elsewhere does no harm here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_within(
        &self,
        offset: ByteOffset,
        len: u64,
    ) -> Result<MutexGuard<'_, State>, ErrorKind> {
        let state = self.lock();
        let end = offset.checked_add(len).ok_or(ErrorKind::Invalid)?.0;
        if end <= state.info.size_bytes { Ok(state) } else { Err(ErrorKind::Invalid) }
    }
}

impl State {
    /// Replaces part of a block.
    fn patch(&mut self, piece: &BlockPiece, change: impl FnOnce(&mut [u8])) {
        let mut block = match self.blocks.get(&piece.block) {
            Some(Block::Data(data)) => AlignedBuf::from_slice(data),
            Some(Block::Zero) | None => AlignedBuf::zeroed(small(BLOCK)),
        };
        change(block.get_mut(piece.skip..piece.skip + piece.len).expect("within one block"));
        self.blocks.insert(piece.block, Block::Data(block.freeze()));
    }

    /// Makes a range read as zeros, by `whole` where blocks are covered whole. Without it, and for a long range, costs
    /// what is there.
    fn clear(&mut self, offset: ByteOffset, len: u64, whole: Option<&Block>) {
        let range_end = offset.0 + len;
        let (first, end) = (offset.next_block(), ByteOffset(range_end).block());
        let whole = whole.filter(|_| end.0.saturating_sub(first.0) <= ZERO_BLOCKS_MAX);
        if let Some(block) = whole {
            for number in first.until(end) {
                self.blocks.insert(number, block.clone());
            }
        } else if first < end {
            let found = self.blocks.range(first..end).map(|(number, _)| *number);
            for number in found.collect::<Vec<BlockIndex>>() {
                self.blocks.remove(&number);
            }
        }
        let head_end = range_end.min(first.offset().0);
        let tail = head_end.max(end.offset().0);
        let head = pieces(offset, head_end - offset.0);
        for piece in head.chain(pieces(ByteOffset(tail), range_end - tail)) {
            if matches!(self.blocks.get(&piece.block), Some(Block::Data(_))) {
                self.patch(&piece, |bytes| bytes.fill(0));
            } else if let Some(block) = whole {
                self.blocks.insert(piece.block, block.clone());
            }
        }
    }

    /// What the block holds in which a byte lies, and up to which byte the same holds.
    fn status(&self, at: u64) -> (ExtentKind, u64) {
        let block = ByteOffset(at).block();
        match self.blocks.range(block..).next() {
            None => (ExtentKind::Hole, u64::MAX),
            Some((next, _)) if *next > block => (ExtentKind::Hole, next.offset().0),
            Some((_, Block::Zero)) => (ExtentKind::Zero, (block + 1).offset().0),
            Some((_, Block::Data(_))) => (ExtentKind::Data, (block + 1).offset().0),
        }
    }
}

impl Export for MemoryExport {
    type Parts = Vec<ReadPart>;

    fn info(&self) -> ExportInfo {
        self.lock().info
    }

    async fn read(&self, offset: ByteOffset, len: u32) -> Result<Vec<ReadPart>, ErrorKind> {
        let state = self.state_within(offset, u64::from(len))?;
        let part = |piece: BlockPiece| match state.blocks.get(&piece.block) {
            Some(Block::Data(data)) => {
                ReadPart::Data(data.slice(piece.skip..piece.skip + piece.len))
            }
            Some(Block::Zero) | None => ReadPart::Zero(piece.len),
        };
        Ok(pieces(offset, u64::from(len)).map(part).collect())
    }

    async fn write(&self, offset: ByteOffset, data: BufSlice) -> Result<(), ErrorKind> {
        let len = u64::try_from(data.len()).map_err(|_| ErrorKind::Invalid)?;
        let mut state = self.state_within(offset, len)?;
        let mut at = 0;
        for piece in pieces(offset, len) {
            let source = at..at + piece.len;
            at = source.end;
            if piece.len == small(BLOCK) {
                state.blocks.insert(piece.block, Block::Data(data.slice(source)));
            } else {
                let bytes = data.slice(source);
                state.patch(&piece, |target| target.copy_from_slice(&bytes));
            }
        }
        Ok(())
    }

    async fn trim(&self, offset: ByteOffset, len: u64) -> Result<(), ErrorKind> {
        self.state_within(offset, len)?.clear(offset, len, None);
        Ok(())
    }

    async fn write_zeroes(
        &self,
        offset: ByteOffset,
        len: u64,
        keep_allocated: bool,
    ) -> Result<(), ErrorKind> {
        let whole = keep_allocated.then_some(&Block::Zero);
        self.state_within(offset, len)?.clear(offset, len, whole);
        Ok(())
    }

    async fn flush(&self) -> Result<(), ErrorKind> {
        Ok(())
    }

    async fn block_status(
        &self,
        offset: ByteOffset,
        len: u64,
        extents_max: usize,
    ) -> Result<Vec<Extent>, ErrorKind> {
        let state = self.state_within(offset, len)?;
        let mut extents: Vec<Extent> = Vec::new();
        let (mut at, end) = (offset.0, offset.0 + len);
        while at < end {
            let (kind, until) = state.status(at);
            let len = until.min(end) - at;
            let full = extents.len() == extents_max;
            match extents.last_mut() {
                Some(last) if last.kind == kind => last.len += len,
                _ if full => break,
                _ => extents.push(Extent { len, kind }),
            }
            at += len;
        }
        Ok(extents)
    }

    /// It has no snapshots: everything may have changed.
    async fn changes(
        &self,
        _since: usize,
        offset: ByteOffset,
        len: u64,
        _extents_max: usize,
    ) -> Result<Vec<Change>, ErrorKind> {
        drop(self.state_within(offset, len)?);
        Ok(vec![Change { len, dirty: true }])
    }
}

/// Named exports in memory.
#[derive(Clone, Default)]
pub struct MemoryExports {
    exports: RefCell<BTreeMap<String, MemoryExport>>,
}

impl MemoryExports {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn with(self, name: &str, export: MemoryExport) -> Self {
        self.exports.borrow_mut().insert(name.to_owned(), export);
        self
    }
}

impl Exports for MemoryExports {
    type Export = MemoryExport;

    async fn list(&self) -> Result<Vec<String>, ErrorKind> {
        Ok(self.exports.borrow().keys().cloned().collect())
    }

    async fn open(&self, name: &str) -> Result<MemoryExport, ErrorKind> {
        self.exports.borrow().get(name).cloned().ok_or(ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::conformance;

    #[test]
    fn it_is_what_an_export_must_be() {
        for seed in 0..4 {
            let export = MemoryExport::new((4 << 20) + 512 * seed);
            conformance::check(&export, seed).now_or_never().expect("memory never waits");
        }
    }

    #[test]
    fn zeros_of_a_long_range_take_no_memory() {
        let size = 1 << 56;
        let export = MemoryExport::new(size);
        let zeroed =
            |len| export.write_zeroes(ByteOffset(0), len, true).now_or_never().unwrap().unwrap();
        let status =
            || export.block_status(ByteOffset(0), size, 2).now_or_never().unwrap().unwrap();
        let data = AlignedBuf::from_slice(&[7; 100]).freeze();
        export.write(ByteOffset(8192), data).now_or_never().unwrap().unwrap();
        zeroed(size - 100);
        assert_eq!(status(), [Extent { len: size, kind: ExtentKind::Hole }]);
        zeroed(8192);
        assert_eq!(status()[0], Extent { len: 8192, kind: ExtentKind::Zero });
    }
}
