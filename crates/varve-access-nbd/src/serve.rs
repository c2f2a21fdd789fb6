//! Runs one admitted request against its export.

use std::rc::Rc;

use varve_access_block::Export;
use varve_stdx::BufSlice;
use varve_types::ByteOffset;

use crate::command::{CheckedCommand, Contexts, extents_max};
use crate::errno::Errno;
use crate::handshake::{BASE_ALLOCATION_ID, CHANGES_ID_FIRST};
use crate::limits::{CACHE_BYTES_MAX, CACHE_PIECE_BYTES};
use crate::outbox::{Outbox, ReadReply, RequestCost};
use crate::wire::reply::{ContextStatus, Echo, StatusRun};

/// A request that may run.
pub(crate) struct Request {
    pub(crate) echo: Echo,
    pub(crate) command: CheckedCommand,
    /// Of a write; `None` when it writes nothing.
    pub(crate) payload: Option<BufSlice>,
}

/// What became of it.
pub(crate) struct RequestOutcome<P> {
    pub(crate) echo: Echo,
    pub(crate) command: CheckedCommand,
    pub(crate) result: Result<ReplyContent<P>, Errno>,
}

/// Content of a successful reply.
pub(crate) enum ReplyContent<P> {
    Done,
    Read(P),
    Status(Vec<ContextStatus>),
}

/// Runs `request`.
pub(crate) async fn serve<E: Export>(export: Rc<E>, request: Request) -> RequestOutcome<E::Parts> {
    let Request { echo, command, payload } = request;
    let result = match command {
        CheckedCommand::Read { offset, len, .. } => {
            export.read(ByteOffset(offset), len).await.map(ReplyContent::Read)
        }
        CheckedCommand::Write { offset, .. } => match payload {
            Some(data) => export.write(ByteOffset(offset), data).await.map(|()| ReplyContent::Done),
            None => Ok(ReplyContent::Done),
        },
        CheckedCommand::Disconnect => panic!("a disconnect is not a request to serve"),
        CheckedCommand::Flush => export.flush().await.map(|()| ReplyContent::Done),
        CheckedCommand::Trim { len: 0, .. } | CheckedCommand::WriteZeroes { len: 0, .. } => {
            Ok(ReplyContent::Done)
        }
        CheckedCommand::Trim { offset, len } => {
            export.trim(ByteOffset(offset), len).await.map(|()| ReplyContent::Done)
        }
        CheckedCommand::WriteZeroes { offset, len, keep_allocated, fast_only } => {
            let zeroed = export.write_zeroes(ByteOffset(offset), len, keep_allocated).await;
            match zeroed {
                Err(varve_types::ErrorKind::Unsupported) if !fast_only => {
                    return RequestOutcome { echo, command, result: Err(Errno::Io) };
                }
                other => other.map(|()| ReplyContent::Done),
            }
        }
        CheckedCommand::Cache { offset, len } => {
            cache(&*export, ByteOffset(offset), len).await.map(|()| ReplyContent::Done)
        }
        CheckedCommand::BlockStatus { offset, len, one_extent, contexts } => {
            let most = extents_max(len, one_extent);
            block_status(&*export, ByteOffset(offset), len, most, contexts)
                .await
                .map(ReplyContent::Status)
        }
    };
    RequestOutcome { echo, command, result: result.map_err(Errno::from) }
}

/// What each selected context says of a range.
async fn block_status<E: Export>(
    export: &E,
    offset: ByteOffset,
    len: u64,
    extents_max: usize,
    contexts: Contexts,
) -> Result<Vec<ContextStatus>, varve_types::ErrorKind> {
    let mut all = Vec::new();
    if contexts.allocation {
        let extents = export.block_status(offset, len, extents_max).await?;
        let runs = extents.iter().take(extents_max).map(StatusRun::from).collect();
        all.push(ContextStatus { context: BASE_ALLOCATION_ID, runs });
    }
    for since in 0..contexts.changes {
        let changes = export.changes(usize::from(since), offset, len, extents_max).await?;
        let runs = changes.iter().take(extents_max).map(StatusRun::from).collect();
        all.push(ContextStatus { context: CHANGES_ID_FIRST + u32::from(since), runs });
    }
    Ok(all)
}

/// Reads a range piece by piece and drops it, as far as that is of use: what was read is in the read cache then.
async fn cache<E: Export>(
    export: &E,
    offset: ByteOffset,
    len: u64,
) -> Result<(), varve_types::ErrorKind> {
    let (mut at, end) = (offset.0, offset.0 + len.min(CACHE_BYTES_MAX));
    while at < end {
        let piece = u32::try_from(end - at).unwrap_or(u32::MAX).min(CACHE_PIECE_BYTES);
        export.read(ByteOffset(at), piece).await?;
        at += u64::from(piece);
    }
    Ok(())
}

impl<P: IntoIterator<Item = varve_access_block::ReadPart>> RequestOutcome<P> {
    /// Adds the reply, which from now on holds what the request held.
    pub(crate) fn reply(self, outbox: &mut Outbox, charge: RequestCost) {
        let Self { echo, command, result } = self;
        match (result, command) {
            (Err(errno), _) => outbox.error(echo, errno, charge),
            (Ok(ReplyContent::Done), _) => outbox.done(echo, charge),
            (Ok(ReplyContent::Read(parts)), CheckedCommand::Read { len, unfragmented, .. }) => {
                outbox.read(ReadReply { echo, len, unfragmented }, parts, charge);
            }
            (Ok(ReplyContent::Status(contexts)), CheckedCommand::BlockStatus { len, .. }) => {
                outbox.block_status(echo, len, &contexts, charge);
            }
            (Ok(ReplyContent::Read(_) | ReplyContent::Status(_)), _) => {
                panic!("an answer that does not belong to its command")
            }
        }
    }
}
