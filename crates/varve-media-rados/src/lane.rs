//! A lane: a ring of bytes in objects of [`LANE_PART_BYTES`]. Every append demands the claim.

use std::rc::Rc;

use futures_util::future::join_all;
use varve_media::{Error, IoFuture, JournalStore, Result};
use varve_stdx::{AlignedBuf, BufSlice};

use crate::claim::ShardClaim;
use crate::layout::{LANE_PART_BYTES, ObjectNames};
use crate::objects::{ObjectChange, Objects, Refusal, Write};

/// See the module.
pub(crate) struct RadosJournal {
    pub(crate) objects: Rc<dyn Objects>,
    pub(crate) names: ObjectNames,
    pub(crate) claim: Rc<ShardClaim>,
    pub(crate) capacity: u64,
}

/// Bytes of one part.
struct JournalPiece {
    object: String,
    /// Within the object.
    offset: u64,
    /// Within the bytes asked for.
    from: usize,
    len: usize,
}

impl RadosJournal {
    /// The parts of `len` bytes at a position.
    fn pieces(&self, position: u64, len: usize) -> Vec<JournalPiece> {
        let start = position % self.capacity;
        assert!(len as u64 <= self.capacity - start, "{len} bytes at {position} cross the end");
        let mut pieces = Vec::new();
        let mut from = 0;
        while from < len {
            let at = start + from as u64;
            let offset = at % LANE_PART_BYTES;
            let room = usize::try_from(LANE_PART_BYTES - offset).unwrap_or(usize::MAX);
            let piece_len = room.min(len - from);
            let object = self.names.lane_part(self.claim.shard(), at / LANE_PART_BYTES);
            pieces.push(JournalPiece { object, offset, from, len: piece_len });
            from += piece_len;
        }
        pieces
    }

    fn failure(&self, operation: &'static str, piece: &JournalPiece, refusal: Refusal) -> Error {
        let JournalPiece { object, offset, len, .. } = piece;
        self.claim.failure(operation, &*self.objects, object, *offset, *len, refusal)
    }
}

impl JournalStore for RadosJournal {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    /// One: the OSD takes an object for itself while an operation that compares commits, and small appends cost it more
    /// than one that gathers them.
    fn appends_at_once(&self) -> usize {
        1
    }

    fn append(&self, position: u64, bytes: BufSlice) -> IoFuture<'_, ()> {
        let mut under_way = Vec::new();
        let began_ns = self.claim.now();
        for piece in self.pieces(position, bytes.len()) {
            let data = bytes.slice(piece.from..piece.from + piece.len);
            let change = ObjectChange {
                expects: vec![self.claim.expectation()],
                write: Some(Write::At(piece.offset, data)),
                ..ObjectChange::default()
            };
            let done = self.objects.change(&piece.object, change); // It is under way from here on.
            under_way.push(async move {
                done.await.map_err(|refusal| self.failure("write", &piece, refusal))
            });
        }
        // All of them first: an error says that nothing is under way any more.
        Box::pin(async move {
            join_all(under_way).await.into_iter().collect::<Result<()>>()?;
            self.claim.confirmed(began_ns);
            Ok(())
        })
    }

    fn read(&self, position: u64, len: u32) -> IoFuture<'_, BufSlice> {
        let pieces = self.pieces(position, len as usize);
        let reads: Vec<_> = pieces
            .iter()
            .map(|piece| self.objects.read(&piece.object, piece.offset, piece.len))
            .collect();
        Box::pin(async move {
            // What was never written is not in the object yet.
            let mut out = AlignedBuf::zeroed(len as usize);
            for (piece, read) in pieces.iter().zip(reads) {
                let bytes = read.await.map_err(|refusal| self.failure("read", piece, refusal))?;
                let count = bytes.len().min(piece.len);
                out[piece.from..piece.from + count].copy_from_slice(&bytes[..count]);
            }
            Ok(out.freeze())
        })
    }

    /// What RADOS shows is durable.
    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}
