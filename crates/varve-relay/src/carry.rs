//! The carrying side of a link: a client's bytes to the node that serves, and what that says to the client.
//!
//! The question how far the client has come (LINKS-4) is answered with `Told` behind everything that the client had
//! sent before it was asked. What a client that is gone left in the kernels of both machines comes as soon as there is
//! room for it, so the answer waits, with the client's socket empty, for one of these:
//!
//! CARRY-1. Nothing comes for [`QUIET_NETWORK`], or [`QUIET_HERE`] where the client is on this machine by a unix
//!     socket.
//! CARRY-2. The client's system has not refused an answer that it was sent [`REFUSAL`] ago: it does so where nobody has
//!     the socket open any more.
//! CARRY-3. However much comes, more came than both kernels hold.
//!
//! A client whose socket is at its end, or broken, ends the link instead.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::RelayedClient;
use crate::link::{FrameBuffer, receive, send, senseless};
use crate::wire::{DATA_BYTES_MAX, LinkFrame};

/// CARRY-1: what was lost on a network is sent again after some 200 ms; on this machine nothing is.
const QUIET_NETWORK: Duration = Duration::from_millis(300);
const QUIET_HERE: Duration = Duration::from_millis(20);

/// CARRY-2: some more of them.
const REFUSAL: Duration = Duration::from_millis(200);

/// CARRY-3: more than Linux lets a socket receive and another one send, also where machines are set up for fast
/// networks (`tcp_rmem`, `tcp_wmem`: up to 32 MiB and 4 MiB by default).
const KERNELS_BYTES: u64 = 256 << 20;

/// How often a question is looked at that has no answer yet.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long a client may take to end a connection that the other side has ended.
const LINGER: Duration = Duration::from_secs(5);

/// Carries until either side ends it, or it breaks. `early` is what came of the client before.
pub(crate) async fn carry(
    client: &RelayedClient,
    early: &[u8],
    link: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let (from_server, mut to_server) = tokio::io::split(link);
    let mut buffer = FrameBuffer::new();
    for piece in early.chunks(DATA_BYTES_MAX) {
        buffer.send_copy(piece, &mut to_server).await?;
    }
    drop(buffer);
    let (asks, asked) = watch::channel(0);
    let answers = AtomicU64::new(0);
    let mut up = std::pin::pin!(up(client, to_server, asked, &answers));
    let mut down = std::pin::pin!(down(client, from_server, asks, &answers));
    tokio::select! {
        ended = &mut up => {
            ended?;
            down.await
        }
        ended = &mut down => {
            ended?;
            tokio::time::timeout(LINGER, up).await.unwrap_or(Ok(()))
        }
    }
}

/// What the client sends.
async fn up(
    client: &RelayedClient,
    mut link: impl AsyncWrite + Unpin,
    mut asked: watch::Receiver<u64>,
    answers: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = FrameBuffer::new();
    let (mut told, mut question) = (0, None::<ProgressQuestion>);
    let mut asks = true;
    loop {
        let latest = *asked.borrow_and_update();
        if question.is_none() && latest > told {
            let quiet = if client.is_here() { QUIET_HERE } else { QUIET_NETWORK };
            question = Some(ProgressQuestion::new(latest, answers.load(Ordering::Acquire), quiet));
        }
        match client.try_read(buffer.room())? {
            Some(0) => return send(LinkFrame::End, &mut link).await,
            Some(count) => {
                buffer.send(count, &mut link).await?;
                if let Some(question) = &mut question {
                    question.came(count);
                }
            }
            None => {
                if let Some(known) = &mut question {
                    if known.is_answered(answers.load(Ordering::Acquire)) {
                        told = known.number;
                        question = None;
                        send(LinkFrame::Told(told), &mut link).await?;
                        continue;
                    }
                    // Only to look again.
                    let _ = tokio::time::timeout(LOOK_EVERY, client.readable()).await;
                    continue;
                }
                tokio::select! {
                    readable = client.readable() => readable?,
                    changed = asked.changed(), if asks => asks = changed.is_ok(),
                }
            }
        }
        if question.as_ref().is_some_and(ProgressQuestion::is_overrun) {
            told = question.take().map_or(told, |question| question.number);
            send(LinkFrame::Told(told), &mut link).await?;
        }
    }
}

/// How far has the client come?
struct ProgressQuestion {
    number: u64,
    came_bytes: u64,
    quiet_since: Instant,
    /// CARRY-1
    quiet: Duration,
    /// Answers of the server when this was asked.
    answers: u64,
    /// When there was one more.
    answered: Option<Instant>,
}

impl ProgressQuestion {
    fn new(number: u64, answers: u64, quiet: Duration) -> Self {
        Self { number, came_bytes: 0, quiet_since: Instant::now(), quiet, answers, answered: None }
    }

    fn came(&mut self, count: usize) {
        self.came_bytes += u64::try_from(count).expect("usize has at most 64 bits");
        self.quiet_since = Instant::now();
    }

    /// With the client's socket empty.
    fn is_answered(&mut self, answers: u64) -> bool {
        if answers > self.answers {
            self.answered.get_or_insert_with(Instant::now);
        }
        let was_refused_by_nobody = self.answered.is_some_and(|at| at.elapsed() >= REFUSAL); // CARRY-2
        self.quiet_since.elapsed() >= self.quiet || was_refused_by_nobody // CARRY-1
    }

    fn is_overrun(&self) -> bool {
        self.came_bytes > KERNELS_BYTES // CARRY-3
    }
}

/// What the server sends.
async fn down(
    client: &RelayedClient,
    mut link: impl AsyncRead + Unpin,
    asks: watch::Sender<u64>,
    answers: &AtomicU64,
) -> io::Result<()> {
    let mut buffer = vec![0; DATA_BYTES_MAX];
    loop {
        match receive(&mut link, &mut buffer).await? {
            LinkFrame::Data(len) => {
                client.write_all(&buffer[..len]).await?;
                answers.fetch_add(1, Ordering::AcqRel);
            }
            LinkFrame::Ask(number) => drop(asks.send(number)), // Nobody is left to ask once the client has ended.
            LinkFrame::End => {
                client.end().await;
                return Ok(());
            }
            LinkFrame::Told(_) => return Err(senseless("an answer to no question")),
        }
    }
}
