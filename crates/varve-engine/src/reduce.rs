//! Makes blocks smaller before they are stored, and restores them: an entropy test, LZ4 or Zstandard.
//!
//! REDUCE-1. A block is kept compressed only where that saves an eighth of it; otherwise it stays raw, and reading it
//!     costs nothing more.
//! REDUCE-2. What is restored has exactly the length of a block, or is damaged.

use std::cell::RefCell;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use varve_logstore::format::summary::Codec;
use varve_logstore::planted::{Bug, planted};
use varve_logstore::segment_writer::UNIT_ALIGN;
use varve_stdx::{Fingerprinter, looks_random};
use varve_types::{Compression, Dedup, PoolId, Reduction, StreamId};
use zstd::bulk::{Compressor, Decompressor};

use crate::Shard;
use crate::admission::Semaphore;
use crate::config::BLOCK_BYTES;
use crate::hash::HashMap;
use crate::sampling::{FingerprintScope, SamplingState};

/// Stored bytes of a compressed block at most (REDUCE-1): stored in units of 512 B, it saves one of eight.
const STORED_MAX: usize = BLOCK_BYTES - UNIT_ALIGN as usize;

const _: () = assert!(STORED_MAX * 8 == BLOCK_BYTES * 7); // REDUCE-1

/// Tries in vain in a row, and how many blocks it takes after so many for one to be tried: a try costs as much as the
/// rest of a write.
const TRY_INTERVALS: [(u32, u32); 2] = [(24, 64), (8, 8)];

const _: () =
    assert!(TRY_INTERVALS[0].0 > TRY_INTERVALS[1].0, "the first that fits is the longest");

/// What makes the fingerprints of different uses of one key different. Changing it forgets which blocks are equal to
/// stored ones.
const FINGERPRINT_CONTEXT: &str = "varve 2026-11 fingerprint of a block";

/// What a shard reduces blocks with.
pub(crate) struct Reduce {
    pub(crate) reducer: RefCell<Reducer>,
    /// What is known of stored blocks.
    pub(crate) dedup: RefCell<crate::dedup::Dedup>,
    pub(crate) fingerprinter: Fingerprinter,
    /// Of the streams for which another reduction than the default was asked.
    pub(crate) wishes: RefCell<HashMap<StreamId, Reduction>>,
    /// Of the streams that are deduplicated where it pays.
    samplings: RefCell<HashMap<StreamId, SamplingState>>,
    /// Held by the one that fingerprints a stored segment: it has all of it in memory.
    pub(crate) learn_gate: Semaphore,
}

impl Reduce {
    pub(crate) fn new(pool: PoolId, index_bytes: usize) -> Self {
        let key = blake3::derive_key(FINGERPRINT_CONTEXT, &pool.0);
        Self {
            reducer: RefCell::new(Reducer::new()),
            dedup: RefCell::new(crate::dedup::Dedup::new(index_bytes)),
            fingerprinter: Fingerprinter::new(&key),
            wishes: RefCell::default(),
            samplings: RefCell::default(),
            learn_gate: Semaphore::new(1),
        }
    }

    /// Forgets a stream.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.wishes.borrow_mut().remove(&stream);
        self.samplings.borrow_mut().remove(&stream);
        self.reducer.borrow_mut().forget(stream);
    }
}

impl Shard {
    /// How blocks of a stream are reduced that are drained from now on. Not durable: until it is said again, a shard
    /// that was reopened takes its default.
    pub fn set_reduction(&self, stream: StreamId, reduction: Reduction) {
        if self.reduction(stream) != reduction {
            self.reduce.wishes.borrow_mut().insert(stream, reduction);
        }
    }

    pub(crate) fn reduction(&self, stream: StreamId) -> Reduction {
        if self.reservations.promises_to(stream) && !planted(Bug::PromisedIsReduced) {
            return Reduction::OFF; // RESERVATIONS-2
        }
        self.reduce.wishes.borrow().get(&stream).copied().unwrap_or(self.config.reduction)
    }

    /// Which blocks of a stream are fingerprinted now.
    pub(crate) fn fingerprinted(&self, stream: StreamId) -> FingerprintScope {
        match self.reduction(stream).dedup {
            Dedup::Off => FingerprintScope::None,
            Dedup::On => FingerprintScope::All,
            Dedup::Auto => {
                let samplings = self.reduce.samplings.borrow();
                samplings.get(&stream).copied().unwrap_or_default().fingerprinted()
            }
        }
    }

    /// A fingerprinted block of a stream was stored, or found: where dedup is automatic, that decides how it goes on.
    pub(crate) fn note_looked_up(&self, stream: StreamId, is_found: bool) {
        if self.reduction(stream).dedup == Dedup::Auto {
            self.reduce.samplings.borrow_mut().entry(stream).or_default().note(is_found);
        }
    }
}

/// What came of the last tries to compress blocks of a stream.
#[derive(Default)]
struct Tries {
    /// How many in a row were in vain.
    in_vain: u32,
    /// Blocks that were not tried since.
    passed_by: u32,
}

impl Tries {
    /// Whether the next block is to be tried: after several in vain only now and then.
    fn next_counts(&mut self) -> bool {
        let interval = TRY_INTERVALS.iter().find(|(tries, _)| self.in_vain >= *tries);
        self.passed_by += 1;
        let counts = self.passed_by >= interval.map_or(1, |(_, interval)| *interval);
        if counts {
            self.passed_by = 0;
        }
        assert!(self.passed_by < TRY_INTERVALS[0].1, "one of so many is tried");
        counts
    }

    fn note(&mut self, saved: bool) {
        self.in_vain = if saved { 0 } else { self.in_vain.saturating_add(1) };
    }
}

/// Compressors of a shard, with their memory.
pub(crate) struct Reducer {
    scratch: Vec<u8>,
    lz4_table: CompressTable,
    tries: HashMap<StreamId, Tries>,
    zstd: Option<(u8, Compressor<'static>)>,
    unzstd: Option<Decompressor<'static>>,
}

impl Reducer {
    pub(crate) fn new() -> Self {
        let scratch = vec![0; get_maximum_output_size(BLOCK_BYTES)];
        assert!(scratch.len() >= BLOCK_BYTES, "any block fits, compressed or not");
        Self {
            scratch,
            lz4_table: CompressTable::small(),
            tries: HashMap::default(),
            zstd: None,
            unzstd: None,
        }
    }

    /// The block compressed, where that is asked for and saves enough (REDUCE-1).
    pub(crate) fn compress(
        &mut self,
        stream: StreamId,
        block: &[u8],
        compression: Compression,
    ) -> Option<(Codec, &[u8])> {
        assert_eq!(block.len(), BLOCK_BYTES, "blocks are reduced one by one");
        if compression == Compression::Off || !self.tries.entry(stream).or_default().next_counts() {
            return None;
        }
        let found = self.try_compress(block, compression);
        self.tries.entry(stream).or_default().note(found.is_some());
        assert!(found.is_none_or(|(_, len)| len <= STORED_MAX), "it saves an eighth"); // REDUCE-1
        found.map(|(codec, len)| (codec, &self.scratch[..len]))
    }

    /// Forgets what came of the tries of a stream.
    pub(crate) fn forget(&mut self, stream: StreamId) {
        self.tries.remove(&stream);
    }

    /// Compresses to the scratch, if that may and does save enough; returns how many bytes are left.
    fn try_compress(&mut self, block: &[u8], compression: Compression) -> Option<(Codec, usize)> {
        if looks_random(block) {
            return None;
        }
        let (codec, len) = match compression {
            Compression::Off => return None,
            Compression::Lz4 => (Codec::Lz4, self.lz4(block)?),
            Compression::Zstd(level) => (Codec::Zstd, self.zstd(block, level)?),
        };
        (len <= STORED_MAX).then_some((codec, len))
    }

    /// Compresses to the scratch; `None` when the library fails, and the block is stored raw.
    fn lz4(&mut self, block: &[u8]) -> Option<usize> {
        compress_into_with_table(block, &mut self.scratch, &mut self.lz4_table).ok()
    }

    /// As [`Self::lz4`].
    fn zstd(&mut self, block: &[u8], level: u8) -> Option<usize> {
        let (made_for, compressor) = match &mut self.zstd {
            Some(made) => made,
            none => none.insert((level, Compressor::new(i32::from(level)).ok()?)),
        };
        if *made_for != level {
            compressor.set_compression_level(i32::from(level)).ok()?;
            *made_for = level;
        }
        compressor.compress_to_buffer(block, &mut self.scratch[..]).ok()
    }

    /// Restores a block to `out`; `false` when the stored bytes are not those of a block (REDUCE-2).
    pub(crate) fn restore(&mut self, codec: Codec, stored: &[u8], out: &mut [u8]) -> bool {
        assert_eq!(out.len(), BLOCK_BYTES, "blocks are restored one by one");
        let len = match codec {
            Codec::Raw => {
                if stored.len() != out.len() {
                    return false;
                }
                out.copy_from_slice(stored);
                Some(stored.len())
            }
            Codec::Lz4 => decompress_into(stored, out).ok(),
            Codec::Zstd => self.unzstd(stored, out),
        };
        len == Some(BLOCK_BYTES)
    }

    fn unzstd(&mut self, stored: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.unzstd.is_none() {
            self.unzstd = Some(Decompressor::new().ok()?);
        }
        self.unzstd.as_mut()?.decompress_to_buffer(stored, out).ok()
    }
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    const ALL: [Compression; 4] =
        [Compression::Off, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)];

    const STREAM: StreamId = StreamId::new(1);

    fn reducer() -> Reducer {
        Reducer::new()
    }

    fn blocks() -> Vec<(&'static str, Vec<u8>)> {
        let mut rng = Rng::new(5);
        let random: Vec<u8> = (0..BLOCK_BYTES).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
        let mut half = random.clone();
        half[..BLOCK_BYTES / 2].fill(9);
        let mut little = random.clone();
        little[..300].fill(0);
        vec![
            ("random", random),
            ("half", half),
            ("300 bytes of zeros, which save less than an eighth", little),
            ("text", b"All happy families are alike. ".repeat(200)[..BLOCK_BYTES].to_vec()),
        ]
    }

    #[test]
    fn what_is_compressed_saves_an_eighth_and_is_restored() {
        let mut reducer = reducer();
        for (name, block) in blocks() {
            for compression in ALL {
                let found = reducer.compress(STREAM, &block, compression);
                let smaller = matches!(name, "half" | "text") && compression != Compression::Off;
                assert_eq!(found.is_some(), smaller, "{name} {compression}");
                let Some((codec, stored)) = found else { continue };
                assert!(stored.len() <= BLOCK_BYTES * 7 / 8, "{name} {compression}");
                let stored = stored.to_vec();
                let mut out = vec![0; BLOCK_BYTES];
                assert!(reducer.restore(codec, &stored, &mut out) && out == block, "{name}");
            }
        }
    }

    #[test]
    fn what_is_tried_in_vain_is_tried_less_until_it_pays_again() {
        let mut reducer = reducer();
        let blocks = blocks();
        let (little, text) = (&blocks[2].1, &blocks[3].1);
        for _ in 0..1000 {
            assert!(reducer.compress(STREAM, little, Compression::Lz4).is_none());
        }
        assert!(reducer.tries[&STREAM].in_vain < 60, "few are tried");
        let other = StreamId::new(2);
        assert!(reducer.compress(other, text, Compression::Lz4).is_some(), "other streams are");
        let mut next = || reducer.compress(STREAM, text, Compression::Lz4).is_some();
        assert!((0..64).any(|_| next()), "one is tried soon");
        assert!(next(), "and then all");
    }

    #[test]
    fn bytes_that_are_no_block_are_refused() {
        let mut reducer = reducer();
        let mut rng = Rng::new(6);
        let mut out = vec![0; BLOCK_BYTES];
        for (_, block) in blocks() {
            for compression in ALL {
                let Some((codec, stored)) = reducer.compress(STREAM, &block, compression) else {
                    continue;
                };
                let stored = stored.to_vec();
                for len in 0..stored.len() {
                    assert!(!reducer.restore(codec, &stored[..len], &mut out), "{codec:?} {len}");
                }
                for _ in 0..1000 {
                    let mut damaged = stored.clone();
                    let at = usize::try_from(rng.below(damaged.len() as u64)).unwrap();
                    damaged[at] ^= 1 << rng.below(8);
                    reducer.restore(codec, &damaged, &mut out); // Whatever it says, it does not panic.
                }
            }
        }
        assert!(!reducer.restore(Codec::Raw, &[1; 100], &mut out));
    }

    #[test]
    fn fingerprints_tell_blocks_and_pools_apart() {
        let pool = |byte| Reduce::new(PoolId([byte; 16]), 0).fingerprinter;
        let blocks = blocks();
        let blocks: Vec<&[u8]> = blocks.iter().map(|(_, block)| &block[..]).collect();
        let (one, other) = (pool(7).fingerprints(&blocks), pool(8).fingerprints(&blocks));
        let all: std::collections::HashSet<_> =
            one[..blocks.len()].iter().chain(&other[..blocks.len()]).collect();
        assert_eq!(all.len(), 2 * blocks.len());
        assert_eq!(pool(7).fingerprints(&blocks), one);
    }
}
