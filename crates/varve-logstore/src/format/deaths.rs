//! Chunks that were overwritten and still stand in the chunk table, as a checkpoint keeps them: the payload of death
//! blobs.
//!
//! Ids ascend, within a blob and from one to the next: the first id of a blob, then distances. Each number takes as few
//! bytes as it can, seven bits a byte, the lowest first; all but the last of them have the highest bit set.

use std::iter::Peekable;

use varve_stdx::Reader;
use varve_types::ChunkId;

use crate::error::Result;

const WHAT: &str = "death blob";

/// Bytes of a number at most: an id has 48 bits.
pub const DEATH_BYTES_MAX: usize = 7;

const _: () = assert!(ChunkId::MAX.get() >> (7 * DEATH_BYTES_MAX) == 0);
const _: () = assert!(ChunkId::MAX.get() >> (7 * (DEATH_BYTES_MAX - 1)) > 0);

/// Appends ids to `out`, which was empty, as long as no more than `bytes_max` are in it for sure; takes what it
/// appended.
///
/// # Panics
/// When the ids do not ascend.
pub fn encode(
    ids: &mut Peekable<impl Iterator<Item = ChunkId>>,
    out: &mut Vec<u8>,
    bytes_max: usize,
) {
    let (begin, mut last) = (out.len(), 0);
    while out.len() - begin + DEATH_BYTES_MAX <= bytes_max
        && let Some(id) = ids.next()
    {
        assert!(id.get() > last, "ids ascend, and none is 0");
        put_number(out, id.get() - last);
        last = id.get();
    }
    assert!(out.len() - begin <= bytes_max);
}

/// Reads the ids of a blob. Costs one pass; what is not an id of this version is refused.
///
/// # Errors
/// `DecodeError::Truncated`, and `DecodeError::BadField` for ids that do not
/// ascend, have more than 48 bits or take more bytes than they need.
pub fn decode(payload: &[u8], mut each: impl FnMut(ChunkId)) -> Result<()> {
    let mut fields = Reader::new(WHAT, payload);
    let mut last = 0;
    while fields.end().is_err() {
        let id = read_number(&mut fields)?.saturating_add(last);
        last = id;
        each(ChunkId::from_untrusted(id).ok_or_else(|| fields.bad("id", id))?);
    }
    Ok(())
}

/// Appends a number, which is not 0.
pub(super) fn put_number(out: &mut Vec<u8>, mut rest: u64) {
    assert!(rest > 0, "0 says nothing"); // FORMAT-4
    assert!(rest >> (7 * DEATH_BYTES_MAX) == 0, "a number of an id"); // FORMAT-4
    while let Some(low) = u8::try_from(rest & 0x7F).ok().filter(|_| rest > 0x7F) {
        out.push(low | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).expect("seven bits are left"));
}

/// Reads what [`put_number`] left.
pub(super) fn read_number(fields: &mut Reader<'_>) -> Result<u64> {
    let mut number = 0;
    for index in 0..DEATH_BYTES_MAX {
        let byte = fields.u8()?;
        number |= u64::from(byte & 0x7F) << (7 * index);
        match byte {
            0 => break, // As the last byte it says nothing; alone it repeats an id.
            1..0x80 => return Ok(number),
            _ => {}
        }
    }
    Err(fields.bad("distance", number).into())
}

#[cfg(test)]
mod tests {
    use varve_stdx::DecodeError;

    use super::*;
    use crate::Error;

    fn blobs(ids: &[u64], bytes_max: usize) -> Vec<Vec<u8>> {
        let mut ids = ids.iter().copied().map(ChunkId::new).peekable();
        let mut blobs = Vec::new();
        while ids.peek().is_some() {
            let mut blob = Vec::new();
            encode(&mut ids, &mut blob, bytes_max);
            assert!(!blob.is_empty() && blob.len() <= bytes_max);
            blobs.push(blob);
        }
        blobs
    }

    fn ids(blobs: &[Vec<u8>]) -> Vec<u64> {
        let mut ids = Vec::new();
        for blob in blobs {
            decode(blob, |id| ids.push(id.get())).unwrap();
        }
        ids
    }

    #[test]
    fn ids_come_back_from_blobs_of_any_size() {
        let mut rng = varve_stdx::Rng::new(3);
        for round in 0..200 {
            let mut all = std::collections::BTreeSet::new();
            for _ in 0..rng.below(300) {
                let bits = 1 + rng.below(47);
                all.insert(1 + rng.below(1 << bits));
            }
            let all: Vec<u64> = all.into_iter().collect();
            assert_eq!(ids(&blobs(&all, DEATH_BYTES_MAX + round)), all);
        }
        assert_eq!(ids(&blobs(&[1, 2, (1 << 48) - 1], 1 << 20)), [1, 2, (1 << 48) - 1]);
    }

    #[test]
    fn what_no_encoder_writes_is_refused() {
        for bad in [
            &[0][..],                                       // the id 0
            &[1, 0],                                        // the same id twice
            &[0x80, 0],                                     // longer than it need be
            &[0x81],                                        // cut off
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],    // 49 bits
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1], // eight bytes
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F, 1], // ascends beyond 48 bits
        ] {
            assert!(
                matches!(
                    decode(bad, |_| {}),
                    Err(Error::Decode(
                        DecodeError::BadField { .. } | DecodeError::Truncated { .. }
                    ))
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn every_flip_is_an_error_or_other_ids() {
        let all = [5, 6, 200, 70_000, 1 << 40];
        let blob = blobs(&all, 100).remove(0);
        for bit in 0..blob.len() * 8 {
            let mut flipped = blob.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut found = Vec::new();
            if decode(&flipped, |id| found.push(id.get())).is_ok() {
                assert_ne!(found, all);
            }
        }
        for len in 0..blob.len() {
            let mut found = Vec::new();
            if decode(&blob[..len], |id| found.push(id.get())).is_ok() {
                assert!(found.len() < all.len());
            }
        }
    }
}
