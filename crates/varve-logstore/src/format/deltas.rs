//! Map updates that wait, as a checkpoint keeps them: the payload of delta blobs.
//!
//! A blob begins with its base, a chunk that none of its chunks lies below. Then come the pages of maps, in the order
//! of streams and blocks: stream, number of the page among the stream's, how many updates; and each of these as the
//! distance of its block from the one before and that of its chunk from the base. Numbers are those of death blobs, so
//! all of them are stored one larger where they may be 0.

use std::iter::Peekable;
use varve_stdx::Reader;

use varve_types::{ChunkId, StreamId};

use super::deaths::{DEATH_BYTES_MAX, put_number, read_number};
use crate::error::Result;

const WHAT: &str = "delta blob";

/// Blocks of a page of a map.
pub const PAGE_BLOCKS: u64 = 512;

/// Bytes of an update and of the page it belongs to at most.
const DELTA_BYTES_MAX: usize = 5 * DEATH_BYTES_MAX;

/// A block that holds another chunk than its map's page says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Delta {
    /// The stream.
    pub stream: StreamId,
    /// The block.
    pub block: u64,
    /// What it holds.
    pub chunk: ChunkId,
}

impl Delta {
    /// The page of the map that it belongs to.
    #[must_use]
    pub const fn page(&self) -> (StreamId, u64) {
        (self.stream, self.block / PAGE_BLOCKS)
    }
}

/// Appends updates to `out` as long as no more than `bytes_max` are added for sure; takes what it appended. Looks at
/// some of those behind as well, for the base.
///
/// # Panics
/// When the updates do not ascend.
pub fn encode(
    deltas: &mut Peekable<impl Iterator<Item = Delta> + Clone>,
    out: &mut Vec<u8>,
    bytes_max: usize,
) {
    // An update takes two bytes at least: no more go in.
    let those = deltas.clone().take(bytes_max / 2);
    let Some(base) = those.map(|delta| delta.chunk).min() else { return };
    let begin = out.len();
    let mut of_page: Vec<Delta> = Vec::new();
    put_number(out, base.get() + 1);
    while let Some(first) = deltas.peek().copied() {
        of_page.clear();
        let room = bytes_max.saturating_sub(out.len() - begin) / DELTA_BYTES_MAX;
        while of_page.len() < room
            && let Some(delta) = deltas.next_if(|delta| delta.page() == first.page())
        {
            of_page.push(delta);
        }
        if of_page.is_empty() {
            return;
        }
        assert!(of_page.len() as u64 <= PAGE_BLOCKS, "a block of a page waits once");
        let (stream, page) = first.page();
        put_number(out, stream.get() + 1);
        put_number(out, page + 1);
        put_number(out, of_page.len() as u64);
        let mut next = page * PAGE_BLOCKS;
        for delta in &of_page {
            put_number(out, delta.block.checked_sub(next).expect("updates ascend") + 1);
            put_number(out, delta.chunk.get() - base.get() + 1);
            next = delta.block + 1;
        }
        if deltas.peek().is_some_and(|delta| delta.page() == first.page()) {
            return; // A page stands in a blob once: what is left of it goes into the next one.
        }
    }
}

/// Reads the updates of a blob. Costs one pass; what is not an update of this version is refused.
///
/// # Errors
/// `DecodeError::Truncated`, and `DecodeError::BadField` for updates that do
/// not ascend, numbers that are too large or take more bytes than they need.
pub fn decode(payload: &[u8], mut each: impl FnMut(Delta)) -> Result<()> {
    let mut fields = Reader::new(WHAT, payload);
    let base = read_number(&mut fields)? - 1;
    let mut last = None;
    while fields.end().is_err() {
        let stream = read_number(&mut fields)? - 1;
        let stream =
            StreamId::from_untrusted(stream).ok_or_else(|| fields.bad("stream", stream))?;
        let page = read_number(&mut fields)? - 1;
        let count = read_number(&mut fields)?;
        let begin = page.saturating_mul(PAGE_BLOCKS);
        if last.is_some_and(|last| last >= (stream, page)) {
            return Err(fields.bad("page", page).into());
        }
        last = Some((stream, page));
        let mut next = begin;
        for _ in 0..count {
            let block = next.saturating_add(read_number(&mut fields)? - 1);
            if block - begin >= PAGE_BLOCKS {
                return Err(fields.bad("block", block).into());
            }
            let id = base.saturating_add(read_number(&mut fields)? - 1);
            let chunk = ChunkId::from_untrusted(id).ok_or_else(|| fields.bad("chunk", id))?;
            each(Delta { stream, block, chunk });
            next = block + 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use varve_stdx::DecodeError;

    use super::*;
    use crate::Error;

    fn delta(stream: u64, block: u64, chunk: u64) -> Delta {
        Delta { stream: StreamId::new(stream), block, chunk: ChunkId::new(chunk) }
    }

    fn blobs(deltas: &[Delta], bytes_max: usize) -> Vec<Vec<u8>> {
        let mut deltas = deltas.iter().copied().peekable();
        let mut blobs = Vec::new();
        while deltas.peek().is_some() {
            let mut blob = Vec::new();
            encode(&mut deltas, &mut blob, bytes_max);
            assert!(blob.len() > 2 && blob.len() <= bytes_max);
            blobs.push(blob);
        }
        blobs
    }

    fn read(blobs: &[Vec<u8>]) -> Vec<Delta> {
        let mut found = Vec::new();
        for blob in blobs {
            decode(blob, |delta| found.push(delta)).unwrap();
        }
        found
    }

    #[test]
    fn updates_come_back_from_blobs_of_any_size() {
        let mut rng = varve_stdx::Rng::new(5);
        for round in 0..200 {
            let mut all = std::collections::BTreeMap::new();
            for _ in 0..rng.below(300) {
                // In one page mostly, so that pages are divided among blobs.
                let bits = if rng.below(3) > 0 { 9 } else { 3 + rng.below(40) };
                let (stream, block) = (rng.below(4), rng.below(1 << bits));
                let bits = 1 + rng.below(46);
                all.insert((stream, block), 1 + rng.below(1 << bits));
            }
            let all: Vec<Delta> = all
                .into_iter()
                .map(|((stream, block), chunk)| delta(stream, block, chunk))
                .collect();
            assert_eq!(read(&blobs(&all, 8 + DELTA_BYTES_MAX + round)), all);
        }
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        for bad in [
            &[][..],                                                    // no base
            &[2, 2, 1],                                                 // no count
            &[2, 2, 1, 1, 1],                                           // no chunk
            &[2, 2, 1, 1, 0x81, 4, 1],                                  // block 512 of page 0
            &[2, 2, 1, 1, 1, 1, 2, 1, 1, 2, 1],                         // a page twice
            &[2, 3, 1, 1, 1, 1, 2, 1, 1, 2, 1],                         // streams descend
            &[2, 2, 1, 1, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], // a chunk of 49 bits
        ] {
            let refused = decode(bad, |_| {});
            assert!(
                matches!(
                    refused,
                    Err(Error::Decode(
                        DecodeError::BadField { .. } | DecodeError::Truncated { .. }
                    ))
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn every_flip_is_an_error_or_other_updates() {
        let all =
            [delta(1, 5, 900), delta(1, 6, 70_000), delta(1, 5000, 800), delta(2, 1, 1 << 40)];
        let blob = blobs(&all, 200).remove(0);
        for bit in 0..blob.len() * 8 {
            let mut flipped = blob.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut found = Vec::new();
            if decode(&flipped, |delta| found.push(delta)).is_ok() {
                assert_ne!(found, all, "bit {bit}");
            }
        }
    }
}
