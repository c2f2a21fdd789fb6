//! The byte stream under a connection: a socket of the reactor, or a pipe in memory for tests and the simulator.

use std::future::Future;
use std::io;
use std::ops::Range;

use varve_reactor::net::Socket;
use varve_stdx::AlignedBuf;

use varve_access_block::Peer;

pub use varve_reactor::net::SendPart;

/// A reliable, ordered stream of bytes in both directions. One receive and one send may be under way at a time.
pub trait Transport {
    /// Receives at least one byte into `range` of the buffer; 0 bytes mean that the peer sends no more.
    fn recv(
        &self,
        buf: AlignedBuf,
        range: Range<usize>,
    ) -> impl Future<Output = (io::Result<usize>, AlignedBuf)>;

    /// Sends all parts in order.
    fn send_all(&self, parts: Vec<SendPart>) -> impl Future<Output = io::Result<()>>;

    /// Ends both directions; the peer sees the end of the stream.
    fn shutdown(&self);

    /// Who is at the other end.
    fn peer(&self) -> Peer {
        Peer::Unknown
    }
}

impl Transport for Socket {
    fn recv(
        &self,
        buf: AlignedBuf,
        range: Range<usize>,
    ) -> impl Future<Output = (io::Result<usize>, AlignedBuf)> {
        self.recv(buf, range)
    }

    fn send_all(&self, parts: Vec<SendPart>) -> impl Future<Output = io::Result<()>> {
        self.send_all(parts)
    }

    fn shutdown(&self) {
        self.shutdown();
    }
}

/// A socket, and who is at its other end.
pub(crate) struct PeerSocket {
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
}

impl Transport for PeerSocket {
    fn recv(
        &self,
        buf: AlignedBuf,
        range: Range<usize>,
    ) -> impl Future<Output = (io::Result<usize>, AlignedBuf)> {
        self.socket.recv(buf, range)
    }

    fn send_all(&self, parts: Vec<SendPart>) -> impl Future<Output = io::Result<()>> {
        self.socket.send_all(parts)
    }

    fn shutdown(&self) {
        self.socket.shutdown();
    }

    fn peer(&self) -> Peer {
        self.peer
    }
}
