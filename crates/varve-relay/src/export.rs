//! The serving side of a link to exports, until its client is served: which exports there are, asked by who agrees with
//! the client, and with which one to begin.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::oneshot;
use varve_access_block::ExportInfo;
use varve_access_nbd::{
    AgreedTerms, Answer, ClientUsage, Contexts, KnownExport, NegotiatedExport, OpenRequest,
    RelayProgress, Since,
};
use varve_nbd::Framing;
use varve_types::{CellId, ErrorKind};

use crate::deliver::IncomingLink;
use crate::front_ends::LocalFrontEnds;
use crate::link::{FrameBuffer, receive, senseless};
use crate::state::RelayState;
use crate::wire::{
    BeginExport, DATA_BYTES_MAX, ExportQuestion, ExportReply, LinkExport, LinkFrame,
};

/// Longer than a client has for its handshake, with all that it may wait for meanwhile.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Somebody who is told, and the answer; an error when nobody answers.
pub fn answer<T: Send + 'static>() -> (Answer<T>, oneshot::Receiver<Result<T, ErrorKind>>) {
    let (tell, told) = oneshot::channel();
    // Whoever asked may have gone.
    (Box::new(move |answer| drop(tell.send(answer))), told)
}

/// An export as links say it.
pub fn encode_export(found: KnownExport) -> LinkExport {
    let KnownExport { name, info, since, holder } = found;
    let ExportInfo { size_bytes, block_bytes, read_only, exclusive } = info;
    LinkExport { name, size_bytes, block_bytes, read_only, exclusive, holder, since }
}

/// An export as NBD means it.
pub fn decode_export(export: LinkExport) -> KnownExport {
    let LinkExport { name, size_bytes, block_bytes, read_only, exclusive, holder, since } = export;
    let info = ExportInfo { size_bytes, block_bytes, read_only, exclusive };
    KnownExport { name, info, since, holder }
}

/// Answers questions until the client is to be served; this side's end of its connection, if it ever is.
pub(crate) async fn converse<F: LocalFrontEnds>(
    state: &RelayState<F>,
    link: &IncomingLink,
    number: u64,
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<Option<UnixStream>> {
    let mut buffer = vec![0; DATA_BYTES_MAX];
    loop {
        let received = tokio::time::timeout(SILENCE_MAX, receive(&mut stream, &mut buffer)).await;
        let len = match received.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))? {
            Ok(LinkFrame::Data(len)) => len,
            Ok(LinkFrame::End) => return Ok(None),
            Ok(_) => return Err(senseless("no client is served yet")),
            // The client wanted nothing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        let question = ExportQuestion::decode(&buffer[..len]).map_err(io::Error::other)?;
        let replies = match question {
            ExportQuestion::List => list(state, link.cell).await?,
            ExportQuestion::Open { name, since } => {
                let since = since.map_or(Since::Listed, Since::Named);
                vec![open(state, link.cell, OpenRequest { name, since }).await?]
            }
            ExportQuestion::Begin(begun) => return begin(state, link, number, *begun).map(Some),
        };
        for reply in replies {
            let message = reply.encode().ok_or_else(|| senseless("a reply is too long"))?;
            FrameBuffer::new().send_copy(&message, &mut stream).await?;
        }
    }
}

/// It serves no more: who asks finds out who does.
fn closed<T>(_: T) -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

async fn list<F: LocalFrontEnds>(
    state: &RelayState<F>,
    cell: CellId,
) -> io::Result<Vec<ExportReply>> {
    let (answer, told) = answer();
    state.here(cell, |fronts| fronts.nbd().list(answer)).ok_or_else(|| closed(()))?;
    Ok(match told.await.map_err(closed)? {
        Ok(names) => ExportReply::names(&names),
        Err(kind) => vec![ExportReply::Refused(kind)],
    })
}

async fn open<F: LocalFrontEnds>(
    state: &RelayState<F>,
    cell: CellId,
    request: OpenRequest,
) -> io::Result<ExportReply> {
    let (answer, told) = answer();
    state.here(cell, |fronts| fronts.nbd().look(request, answer)).ok_or_else(|| closed(()))?;
    Ok(match told.await.map_err(closed)? {
        Ok(found) => ExportReply::Found(encode_export(found)),
        Err(kind) => ExportReply::Refused(kind),
    })
}

/// Hands the client to a thread that serves NBD.
fn begin<F: LocalFrontEnds>(
    state: &RelayState<F>,
    link: &IncomingLink,
    number: u64,
    begin: BeginExport,
) -> io::Result<UnixStream> {
    let (here, there) = std::os::unix::net::UnixStream::pair()?;
    here.set_nonblocking(true)?;
    let here = UnixStream::from_std(here)?;
    let BeginExport { export, structured_reply, extended_headers, allocation, changes, words } =
        begin;
    let framing = match (extended_headers, structured_reply) {
        (true, _) => Framing::Extended,
        (false, true) => Framing::Structured,
        (false, false) => Framing::Simple,
    };
    let negotiated = NegotiatedExport { framing, contexts: Contexts { allocation, changes } };
    let export = decode_export(export);
    let usage = ClientUsage::of(negotiated);
    let agreed = AgreedTerms { export, negotiated, usage, words, early: Vec::new(), session: None };
    let is_taken = state.here(link.cell, |fronts| {
        // Openings must find it before its client may be told that the export is open (RELAY-LISTENER-3).
        let carried = Arc::clone(link.carried.get_or_init(|| Arc::new(RelayProgress::new(number))));
        fronts.nbd().begin(there.into(), agreed, Some(carried))
    });
    if is_taken == Some(true) {
        return Ok(here);
    }
    tracing::debug!(node = %link.node, "a carried connection is refused");
    Err(io::ErrorKind::ConnectionRefused.into())
}
