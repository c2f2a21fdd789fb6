//! Bodies on their way to and from shelves.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt};
use tokio::sync::OwnedSemaphorePermit;
use varve_dispatch::{BLOCK_BYTES, JobHandle};
use varve_stdx::AlignedBuf;

use super::caller::{Address, ShardClient};
use crate::shelf::{
    ContentPiece, ContentStaging, DEPTH_MAX, HeldContent, ShelfBody, WrittenContent,
};
use crate::{Body, BodyReader, BodyWriter, Error, Result, StagedBody};

/// Bytes that one job reads or writes: a large write of the shard, or a large read.
pub(super) const PIECE_BYTES: usize = 1 << 20;

/// The same where there is no memory for more.
pub(super) const SMALL_PIECE_BYTES: usize = 64 << 10;

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
pub(super) struct EngineBody {
    pub(super) caller: Arc<ShardClient>,
    pub(super) at: Address,
    pub(super) body: Arc<HeldContent>,
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
        if start > end || end > self.len() {
            let what = format!("a body of {} bytes, of which {start}..{end} is read,", self.len());
            return stream::iter([Err(Error::Corrupt { what })]).boxed();
        }
        let (caller, at, body) = (Arc::clone(&self.caller), self.at, Arc::clone(&self.body));
        let counting = Arc::clone(&caller);
        let mut next = start;
        let ranges = std::iter::from_fn(move || {
            if next == end {
                return None;
            }
            let (piece, memory) = counting.piece();
            // Pieces end where those of the body do, so that they lie in whole blocks.
            let to = ((next / piece as u64 + 1) * piece as u64).min(end);
            Some((std::mem::replace(&mut next, to)..to, memory))
        });
        let read = move |(range, memory): (Range<u64>, Option<OwnedSemaphorePermit>)| {
            let (caller, body) = (Arc::clone(&caller), Arc::clone(&body));
            let memory = memory.map(Arc::new);
            async move {
                let counted = |bytes| match &memory {
                    Some(memory) => {
                        Bytes::from_owner(CountedBytes { bytes, _memory: Arc::clone(memory) })
                    }
                    None => bytes,
                };
                let read = read_pieces(&caller, at, body, range).await?;
                Ok(read.into_iter().map(counted).collect::<Vec<_>>())
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

/// Bytes of a body. What it shares is read where it is; that it was there all the while is what the shelf that holds
/// the body says afterwards.
async fn read_pieces(
    caller: &ShardClient,
    at: Address,
    body: Arc<HeldContent>,
    range: Range<u64>,
) -> Result<Vec<Bytes>> {
    let held = Arc::clone(&body);
    let read = caller.on_shelf(at, move |shelf| {
        Box::pin(async move { Ok(shelf.content().read(&held, range).await?) })
    });
    let pieces = read.await?;
    if pieces.iter().all(|piece| matches!(piece, ContentPiece::Here(_))) {
        return all_here(pieces);
    }
    let read = read_elsewhere(caller, at, pieces).await;
    let check = caller
        .on_shelf(at, move |shelf| Box::pin(async move { Ok(shelf.content().check_held(&body)?) }));
    check.await?; // Otherwise it may be gone by right, and what was read says nothing.
    read
}

fn all_here(pieces: Vec<ContentPiece>) -> Result<Vec<Bytes>> {
    let bytes = pieces.into_iter().map(|piece| match piece {
        ContentPiece::Here(bytes) => Ok(bytes),
        ContentPiece::Elsewhere { .. } => {
            Err(Error::Corrupt { what: "a body whose references lie too deep".to_owned() })
        }
    });
    bytes.collect()
}

/// The bytes of pieces, wherever they are.
async fn read_elsewhere(
    caller: &ShardClient,
    at: Address,
    mut pieces: Vec<ContentPiece>,
) -> Result<Vec<Bytes>> {
    for _ in 0..=DEPTH_MAX {
        let mut found = Vec::with_capacity(pieces.len());
        let mut is_whole = true;
        for piece in pieces {
            let ContentPiece::Elsewhere { taker, reference, range } = piece else {
                found.push(piece);
                continue;
            };
            is_whole = false;
            let home = Address { shard: reference.home(), ..at };
            let read = caller.on_shelf(home, move |shelf| {
                Box::pin(
                    async move { Ok(shelf.content().read_shared(taker, reference, range).await?) },
                )
            });
            found.extend(read.await?);
        }
        pieces = found;
        if is_whole {
            break;
        }
    }
    all_here(pieces)
}

/// A body that was found.
pub(super) fn found(caller: &Arc<ShardClient>, at: Address, body: ShelfBody) -> Arc<dyn Body> {
    match body {
        ShelfBody::Memory(pieces) => Arc::new(MemoryBody { pieces }),
        ShelfBody::Stored(body) => {
            Arc::new(EngineBody { caller: Arc::clone(caller), at, body: Arc::new(body) })
        }
    }
}

/// Bytes that were read, counted until whoever has them lets go.
struct CountedBytes {
    bytes: Bytes,
    _memory: Arc<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A piece that is being filled, and its room in memory if it is a large one.
struct FilledPiece {
    data: AlignedBuf,
    bytes_max: usize,
    memory: Option<OwnedSemaphorePermit>,
}

/// A body that is being written.
pub(super) struct EngineWriter {
    caller: Arc<ShardClient>,
    at: Address,
    staging: Arc<ContentStaging>,
    filling: Option<FilledPiece>,
    /// Bytes that were sent off.
    sent: u64,
    under_way: VecDeque<JobHandle<Result<()>>>,
}

impl EngineWriter {
    pub(super) fn new(caller: Arc<ShardClient>, at: Address, staging: Arc<ContentStaging>) -> Self {
        Self { caller, at, staging, filling: None, sent: 0, under_way: VecDeque::new() }
    }

    /// An empty piece for what is still to come.
    fn new_piece(&self) -> FilledPiece {
        let (bytes_max, memory) = self.caller.piece();
        let room = self.staging.room().saturating_sub(self.sent);
        let len = usize::try_from(room).unwrap_or(bytes_max).clamp(1, bytes_max);
        let mut data = AlignedBuf::scratch(len.next_multiple_of(BLOCK_BYTES));
        data.set_len(0);
        FilledPiece { data, bytes_max, memory }
    }

    /// Sends off what is filled, as whole blocks.
    async fn send(&mut self) -> Result<()> {
        let Some(FilledPiece { mut data, memory, .. }) = self.filling.take() else { return Ok(()) };
        let len = data.len();
        let padded = len.next_multiple_of(BLOCK_BYTES);
        data.set_len(padded);
        data[len..].fill(0);
        // The write keeps it: what is swept is written no more.
        let (staging, block) = (Arc::clone(&self.staging), self.sent / BLOCK_BYTES as u64);
        let data = data.freeze();
        let under_way_max = if memory.is_some() { WRITES_MAX } else { 1 };
        while self.under_way.len() >= under_way_max
            && let Some(oldest) = self.under_way.pop_front()
        {
            settled(oldest).await?;
        }
        let write = self.caller.begin(self.at, move |shelf| {
            Box::pin(async move {
                let written = shelf.content().write_staged(&staging, block, data).await;
                drop(memory);
                Ok(written?)
            })
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

async fn settled(write: JobHandle<Result<()>>) -> Result<()> {
    write.result().await.map_err(|error| Error::Unavailable { what: error.to_string() })?
}

#[async_trait]
impl BodyWriter for EngineWriter {
    async fn write(&mut self, data: Bytes) -> Result<()> {
        let mut rest: &[u8] = &data;
        let filled = self.filling.as_ref().map_or(0, |piece| piece.data.len());
        let total = self.sent + (filled + rest.len()) as u64;
        if total > self.staging.room() {
            let reason = format!("it is longer than {} bytes", self.staging.room());
            return Err(Error::Body { reason });
        }
        while !rest.is_empty() {
            let mut piece = self.filling.take().unwrap_or_else(|| self.new_piece());
            let filled = piece.data.len();
            let (now, later) = rest.split_at(rest.len().min(piece.bytes_max - filled));
            piece.data.set_len(filled + now.len());
            piece.data[filled..].copy_from_slice(now);
            rest = later;
            let is_full = piece.data.len() == piece.bytes_max;
            self.filling = Some(piece);
            if is_full {
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
pub(super) fn staged(body: StagedBody) -> Result<WrittenContent> {
    let staged = body.handle.downcast::<WrittenContent>();
    let staged = staged.map_err(|_| Error::State { reason: "a body of another store" })?;
    Ok(*staged)
}
