//! Frames on a stream, and making a link.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsStream, client};
use varve_membership::{Fingerprint, NodeAddress};

use crate::key::{NodeKey, fingerprint_of};
use crate::wire::{
    ANSWER_BYTES, DATA_BYTES_MAX, FRAME_HEAD_BYTES, FrameHead, Hello, HelloReply, LinkFrame,
};

/// How long a connection to another node, the handshake, and hello and answer take at most.
pub(crate) const BEGIN_MAX: Duration = Duration::from_secs(5);

/// A machine that acknowledges nothing for so long is gone. What is owed to it is tried until then; one that is owed
/// nothing is asked.
const GONE_AFTER: Duration = Duration::from_secs(10);
const ASKED_AFTER: Duration = Duration::from_secs(4);
const ASKED_EVERY: Duration = Duration::from_secs(2);
const ASKED_TIMES: u32 = 3;

/// A buffer for a frame with data (LINKS-3).
pub(crate) struct FrameBuffer(Vec<u8>);

impl FrameBuffer {
    pub(crate) fn new() -> Self {
        Self(vec![0; FRAME_HEAD_BYTES + DATA_BYTES_MAX])
    }

    /// Where its data goes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.0[FRAME_HEAD_BYTES..]
    }

    /// Sends these bytes, which fit.
    pub(crate) async fn send_copy(
        &mut self,
        bytes: &[u8],
        link: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.room()[..bytes.len()].copy_from_slice(bytes);
        self.send(bytes.len(), link).await
    }

    /// Sends so many bytes of it.
    pub(crate) async fn send(
        &mut self,
        len: usize,
        link: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.0[..FRAME_HEAD_BYTES].copy_from_slice(&LinkFrame::Data(len).encode());
        link.write_all(&self.0[..FRAME_HEAD_BYTES + len]).await?;
        link.flush().await
    }
}

/// Sends a frame without data.
pub(crate) async fn send(frame: LinkFrame, link: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    link.write_all(&frame.encode()).await?;
    link.flush().await
}

/// The next frame; its data is at the beginning of the buffer.
pub(crate) async fn receive(
    link: &mut (impl AsyncRead + Unpin),
    buffer: &mut [u8],
) -> io::Result<LinkFrame> {
    let mut head = [0; FRAME_HEAD_BYTES];
    link.read_exact(&mut head).await?;
    let head = FrameHead::decode(head).ok_or_else(|| senseless("a frame of no kind"))?;
    let rest = &mut buffer[..head.rest()];
    link.read_exact(rest).await?;
    let number = || u64::from_le_bytes((&*rest).try_into().expect("a number has 8 bytes"));
    Ok(match head {
        FrameHead::Data(len) => LinkFrame::Data(len),
        FrameHead::End => LinkFrame::End,
        FrameHead::Ask => LinkFrame::Ask(number()),
        FrameHead::Told => LinkFrame::Told(number()),
    })
}

pub(crate) fn senseless(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Makes a link to a node, and says hello; what it answers, and the stream if it accepts.
pub(crate) async fn connect(
    key: &NodeKey,
    to: NodeAddress,
    hello: &Hello,
) -> io::Result<(HelloReply, client::TlsStream<TcpStream>)> {
    let begin = async {
        let socket = TcpStream::connect(to.address).await?;
        find_dead_peers(&socket)?;
        let connector = key.connector(to.fingerprint).map_err(io::Error::other)?; // LINKS-2
        let mut link = connector.connect(NodeKey::name(), socket).await?;
        link.write_all(&hello.encode()).await?;
        link.flush().await?;
        let mut answer = [0; ANSWER_BYTES];
        link.read_exact(&mut answer).await?;
        let answer = HelloReply::decode(&answer).map_err(io::Error::other)?;
        Ok((answer, link))
    };
    tokio::time::timeout(BEGIN_MAX, begin)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

/// Small frames go at once, and a peer whose machine or network is gone is noticed.
pub(crate) fn find_dead_peers(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let fd = socket.as_fd();
    sockopt::set_socket_keepalive(fd, true)?;
    sockopt::set_tcp_keepidle(fd, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(fd, ASKED_EVERY)?;
    sockopt::set_tcp_keepcnt(fd, ASKED_TIMES)?;
    let gone_ms = u32::try_from(GONE_AFTER.as_millis()).expect("seconds");
    sockopt::set_tcp_user_timeout(fd, gone_ms)?;
    Ok(())
}

/// Of the key that the other end showed.
pub(crate) fn peer(link: &TlsStream<TcpStream>) -> Option<Fingerprint> {
    let (_, session) = link.get_ref();
    session.peer_certificates()?.first().map(|key| fingerprint_of(key))
}
