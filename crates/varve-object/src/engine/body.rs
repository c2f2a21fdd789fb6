//! Bodies on their way to and from shelves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use varve_dispatch::{Answer, BLOCK_BYTES};
use varve_stdx::AlignedBuf;

use super::caller::{Address, Caller};
use crate::shelf::{ShelfBody, Staged, Staging, StoredBodyRef};
use crate::{Body, BodyReader, BodyWriter, Error, Result, StagedBody};

/// Bytes that one job reads or writes: a large write of the shard, or a large read.
const PIECE_BYTES: usize = 1 << 20;

/// Pieces of a body under way to the shard: enough for large writes to fill segments by themselves.
const WRITES_MAX: usize = 4;

/// Pieces that are read ahead of the one that is taken.
const READS_AHEAD: usize = 2;

/// A body in memory.
#[derive(Debug)]
struct MemoryBody {
    pieces: Vec<Bytes>,
}

impl Body for MemoryBody {
    fn len(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    fn read(&self, range: Range<u64>) -> BodyReader {
        let mut pieces = Vec::new();
        let mut begin = 0;
        for piece in &self.pieces {
            let end = begin + piece.len() as u64;
            let (from, to) = (range.start.max(begin), range.end.min(end));
            if from < to {
                let within = |at: u64| usize::try_from(at - begin).expect("inside the piece");
                pieces.push(Ok(piece.slice(within(from)..within(to))));
            }
            begin = end;
        }
        stream::iter(pieces).boxed()
    }

    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }
}

/// A body on a shelf, which keeps it as long as this lives.
struct EngineBody {
    caller: Arc<Caller>,
    at: Address,
    body: Arc<StoredBodyRef>,
}

impl std::fmt::Debug for EngineBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBody").field("at", &self.at).field("body", &self.body).finish()
    }
}

impl Body for EngineBody {
    fn len(&self) -> u64 {
        self.body.len()
    }

    fn read(&self, range: Range<u64>) -> BodyReader {
        let Range { start, end } = range;
        assert!(start <= end && end <= self.len(), "inside the body");
        let piece = PIECE_BYTES as u64;
        // Pieces end where those of the body do, so that they lie in whole blocks.
        let first = start / piece;
        let cuts =
            (first..).map(move |index| (index * piece).max(start)..((index + 1) * piece).min(end));
        let ranges = cuts.take_while(move |range| range.start < end);
        let (caller, at, body) = (Arc::clone(&self.caller), self.at, Arc::clone(&self.body));
        let read = move |range: Range<u64>| {
            let (caller, body) = (Arc::clone(&caller), Arc::clone(&body));
            async move {
                caller
                    .on_shelf(at, move |shelf| {
                        Box::pin(async move { shelf.read(&body, range).await })
                    })
                    .await
            }
        };
        let pieces = stream::iter(ranges).map(read).buffered(READS_AHEAD);
        let flat = pieces.flat_map(|read| match read {
            Ok(pieces) => stream::iter(pieces.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        });
        flat.boxed()
    }

    fn as_any(&self) -> &(dyn std::any::Any + Send + Sync) {
        self
    }
}

/// A body that was found.
pub(super) fn found(caller: &Arc<Caller>, at: Address, body: ShelfBody) -> Arc<dyn Body> {
    match body {
        ShelfBody::Memory(pieces) => Arc::new(MemoryBody { pieces }),
        ShelfBody::Stored(body) => {
            Arc::new(EngineBody { caller: Arc::clone(caller), at, body: Arc::new(body) })
        }
    }
}

/// A body that is being written.
pub(super) struct EngineWriter {
    caller: Arc<Caller>,
    at: Address,
    staging: Arc<Staging>,
    filling: AlignedBuf,
    /// Bytes that were sent off.
    sent: u64,
    under_way: VecDeque<Answer<Result<()>>>,
}

impl EngineWriter {
    pub(super) fn new(caller: Arc<Caller>, at: Address, staging: Arc<Staging>) -> Self {
        let filling = piece_buffer(staging.room());
        Self { caller, at, staging, filling, sent: 0, under_way: VecDeque::new() }
    }

    /// Sends off what is filled, as whole blocks.
    async fn send(&mut self) -> Result<()> {
        let len = self.filling.len();
        if len == 0 {
            return Ok(());
        }
        let room = self.staging.room().saturating_sub(self.sent + len as u64);
        let mut data = std::mem::replace(&mut self.filling, piece_buffer(room));
        let padded = len.next_multiple_of(BLOCK_BYTES);
        data.set_len(padded);
        data[len..].fill(0);
        // The write keeps it: what is swept is written no more.
        let (staging, block) = (Arc::clone(&self.staging), self.sent / BLOCK_BYTES as u64);
        let data = data.freeze();
        if self.under_way.len() == WRITES_MAX
            && let Some(oldest) = self.under_way.pop_front()
        {
            settled(oldest).await?;
        }
        let write = self.caller.begin(self.at, move |shelf| {
            Box::pin(async move { shelf.write_staged(&staging, block, data).await })
        });
        self.under_way.push_back(write.await?);
        self.sent += len as u64;
        Ok(())
    }

    async fn finished(mut self) -> Result<StagedBody> {
        self.send().await?;
        for write in self.under_way.drain(..) {
            settled(write).await?;
        }
        let len = self.sent;
        Ok(StagedBody { len, handle: Box::new(self.staging.finish(len)) })
    }
}

async fn settled(write: Answer<Result<()>>) -> Result<()> {
    write.result().await.map_err(|error| Error::Unavailable { what: error.to_string() })?
}

/// An empty buffer for a piece of a body that takes so many bytes more.
fn piece_buffer(room: u64) -> AlignedBuf {
    let len = usize::try_from(room).unwrap_or(PIECE_BYTES).clamp(1, PIECE_BYTES);
    let mut buffer = AlignedBuf::scratch(len.next_multiple_of(BLOCK_BYTES));
    buffer.set_len(0);
    buffer
}

#[async_trait]
impl BodyWriter for EngineWriter {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        let mut rest: &[u8] = &data;
        let total = self.sent + (self.filling.len() + rest.len()) as u64;
        if total > self.staging.room() {
            let reason = format!("it is longer than {} bytes", self.staging.room());
            return Err(Error::Body { reason });
        }
        while !rest.is_empty() {
            let filled = self.filling.len();
            let (now, later) = rest.split_at(rest.len().min(PIECE_BYTES - filled));
            self.filling.set_len(filled + now.len());
            self.filling[filled..].copy_from_slice(now);
            rest = later;
            if self.filling.len() == PIECE_BYTES {
                self.send().await?;
            }
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<StagedBody> {
        self.finished().await
    }
}

/// What was staged here.
pub(super) fn staged(body: StagedBody) -> Result<Staged> {
    let staged = body.handle.downcast::<Staged>();
    let staged = staged.map_err(|_| Error::State { reason: "a body of another store" })?;
    Ok(*staged)
}
