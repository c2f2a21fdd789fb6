//! The serving side of a link: what another node carries goes to a front-end, as if its client had connected here.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use varve_access_nbd::RelayProgress;
use varve_membership::NodeId;
use varve_types::CellId;

use crate::link::{FrameBuffer, receive, send, senseless};
use crate::wire::{DATA_BYTES_MAX, FrontEnd, LinkFrame};

/// How long a front-end may take to end a connection that the carrying node has ended in order.
const LINGER: Duration = Duration::from_secs(60);

/// How long a node may take to say how far a client has come. A link that is not told of by then is cut.
pub(crate) const TOLD_MAX: Duration = Duration::from_secs(3);

/// A link by which another node carries a connection. What delivers its bytes has the other half.
pub(crate) struct IncomingLink {
    /// Who carries it.
    pub(crate) node: NodeId,
    pub(crate) front_end: FrontEnd,
    /// The cell that it leads to.
    pub(crate) cell: CellId,
    /// How far its connection has come, where a volume is or was served by it.
    pub(crate) carried: OnceLock<Arc<RelayProgress>>,
    pub(crate) counts: LinkCounts,
    asks: watch::Sender<u64>,
    told: watch::Receiver<PeerReport>,
    is_delivering: AtomicBool,
    cut: watch::Sender<bool>,
}

/// Bytes of a link.
#[derive(Default)]
pub(crate) struct LinkCounts {
    /// From the client.
    pub(crate) received: AtomicU64,
    /// To it.
    pub(crate) sent: AtomicU64,
}

/// What the carrying node has told.
#[derive(Clone, Copy, Default)]
struct PeerReport {
    number: u64,
    /// Bytes that had been delivered by then.
    bytes: u64,
}

/// What delivers.
pub(crate) struct Delivery {
    link: Arc<IncomingLink>,
    asked: watch::Receiver<u64>,
    tells: watch::Sender<PeerReport>,
    is_cut: watch::Receiver<bool>,
}

impl IncomingLink {
    /// A link, and what delivers its bytes.
    pub(crate) fn new(node: NodeId, front_end: FrontEnd, cell: CellId) -> (Arc<Self>, Delivery) {
        let ((asks, asked), (tells, told)) =
            (watch::channel(0), watch::channel(PeerReport::default()));
        let (cut, is_cut) = watch::channel(false);
        let link = Arc::new(Self {
            node,
            front_end,
            cell,
            carried: OnceLock::new(),
            counts: LinkCounts::default(),
            asks,
            told,
            is_delivering: AtomicBool::new(false),
            cut,
        });
        (Arc::clone(&link), Delivery { link, asked, tells, is_cut })
    }

    /// Nothing that has not been delivered is, from now on.
    pub(crate) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Bytes delivered once everything is that the client had sent when this is called; `None` when the link has ended,
    /// or is cut for its silence.
    pub(crate) async fn ask(&self) -> Option<u64> {
        let mut number = 0;
        self.asks.send_modify(|latest| {
            *latest += 1;
            number = *latest;
        });
        let mut told = self.told.clone();
        loop {
            match tokio::time::timeout(TOLD_MAX, told.wait_for(|told| told.number >= number)).await
            {
                Ok(told) => return told.ok().map(|told| told.bytes),
                // It is this node that does not take what the other one has.
                Err(_) if self.is_delivering.load(Ordering::Acquire) => {}
                Err(_) => {
                    tracing::warn!(node = %self.node, "a link is cut: its node does not say whether the client is there");
                    self.cut();
                    return None;
                }
            }
        }
    }
}

impl Delivery {
    /// Does what comes before there is anything to deliver, unless the link is cut.
    pub(crate) async fn unless_cut<T>(
        &mut self,
        work: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        tokio::select! {
            biased;
            _ = self.is_cut.wait_for(|is_cut| *is_cut) => Err(io::ErrorKind::ConnectionAborted.into()),
            done = work => done,
        }
    }

    /// Delivers until either side ends it, it breaks, or is cut. Everything is let go of on return.
    pub(crate) async fn run(
        self,
        stream: impl AsyncRead + AsyncWrite,
        front: impl AsyncRead + AsyncWrite,
    ) -> io::Result<()> {
        let Self { link, asked, tells, mut is_cut } = self;
        let (from_node, to_node) = tokio::io::split(stream);
        let (from_front, to_front) = tokio::io::split(front);
        let mut up = std::pin::pin!(up(&link, from_node, to_front, tells));
        let mut down = std::pin::pin!(down(&link, from_front, to_node, asked));
        let both = async {
            tokio::select! {
                ended = &mut up => {
                    ended?;
                    tokio::time::timeout(LINGER, down).await.unwrap_or(Ok(()))
                }
                ended = &mut down => {
                    ended?;
                    tokio::time::timeout(LINGER, up).await.unwrap_or(Ok(()))
                }
            }
        };
        tokio::select! {
            biased;
            _ = is_cut.wait_for(|is_cut| *is_cut) => Err(io::ErrorKind::ConnectionAborted.into()),
            ended = both => ended,
        }
    }
}

/// What the client sends.
async fn up(
    link: &IncomingLink,
    mut from_node: impl AsyncRead + Unpin,
    mut to_front: impl AsyncWrite + Unpin,
    tells: watch::Sender<PeerReport>,
) -> io::Result<()> {
    let (mut buffer, mut bytes) = (vec![0; DATA_BYTES_MAX], 0);
    loop {
        match receive(&mut from_node, &mut buffer).await? {
            LinkFrame::Data(len) => {
                link.is_delivering.store(true, Ordering::Release);
                let delivered = to_front.write_all(&buffer[..len]).await;
                link.is_delivering.store(false, Ordering::Release);
                delivered?;
                bytes += u64::try_from(len).expect("usize has at most 64 bits");
                link.counts.received.store(bytes, Ordering::Relaxed);
            }
            LinkFrame::Told(number) => {
                // It is told of no more once nobody asks.
                let _ = tells.send(PeerReport { number, bytes });
            }
            LinkFrame::End => return to_front.shutdown().await,
            LinkFrame::Ask(_) => return Err(senseless("a question by who carries")),
        }
    }
}

/// What the front-end answers, and the question.
async fn down(
    link: &IncomingLink,
    mut from_front: impl AsyncRead + Unpin,
    mut to_node: impl AsyncWrite + Unpin,
    mut asked: watch::Receiver<u64>,
) -> io::Result<()> {
    let mut buffer = FrameBuffer::new();
    loop {
        let read = tokio::select! {
            read = from_front.read(buffer.room()) => Some(read?),
            changed = asked.changed() => match changed {
                Ok(()) => None,
                Err(_) => return Ok(()), // The link is gone.
            },
        };
        match read {
            None => {
                let number = *asked.borrow_and_update();
                send(LinkFrame::Ask(number), &mut to_node).await?;
            }
            Some(0) => return send(LinkFrame::End, &mut to_node).await,
            Some(count) => {
                buffer.send(count, &mut to_node).await?;
                let count = u64::try_from(count).expect("usize has at most 64 bits");
                link.counts.sent.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}
