//! Sockets of the real loop: TCP and unix, blocking descriptors driven by the ring.
//!
//! A connection belongs to one thread at a time; [`Socket::into_fd`] and [`Socket::from_fd`] hand it to another.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;

use io_uring::opcode;
use io_uring::types::Fd;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::reactor::Reactor;
use crate::ring::{OperationMemory, Ring, RingFile, RingOperation, new_fd, outcome};

/// Most parts of one `sendmsg`: the kernel's bound.
const PARTS_MAX: usize = 1024;

/// A piece of what is sent.
#[derive(Clone, Debug)]
pub enum SendPart {
    /// Headers and other small things.
    Small(Vec<u8>),
    /// Data, not copied.
    Slice(BufSlice),
}

impl SendPart {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Slice(bytes) => bytes,
        }
    }
}

/// What `sendmsg` reads: the parts, and the vectors that point into them and to each other.
pub(crate) struct Message {
    parts: Vec<SendPart>,
    vectors: Vec<libc::iovec>,
    header: libc::msghdr,
}

impl Message {
    /// Points the header at what follows the first `skip` bytes; false when nothing does.
    fn aim(&mut self, mut skip: usize) -> bool {
        self.vectors.clear();
        for part in &self.parts {
            let bytes = part.bytes();
            let rest = &bytes[skip.min(bytes.len())..];
            skip -= bytes.len() - rest.len();
            if !rest.is_empty() && self.vectors.len() < PARTS_MAX {
                let iov_base = rest.as_ptr().cast_mut().cast();
                self.vectors.push(libc::iovec { iov_base, iov_len: rest.len() });
            }
        }
        self.header.msg_iov = self.vectors.as_mut_ptr();
        self.header.msg_iovlen = self.vectors.len();
        !self.vectors.is_empty()
    }
}

/// A connected stream socket on this thread. Clones share the connection.
#[derive(Clone)]
pub struct Socket {
    file: RingFile,
    ring: Ring,
}

impl Socket {
    /// Drives a connected stream socket from this thread's loop. The descriptor must be in blocking mode.
    ///
    /// # Errors
    /// `Unsupported` in the simulator.
    pub fn from_fd(reactor: &Reactor, fd: OwnedFd) -> io::Result<Self> {
        let ring = ring_of(reactor)?;
        Ok(Self { file: ring.plain(fd), ring })
    }

    /// The connection, to be driven from another thread; operations under way here go on and then let go.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        self.file.into_fd()
    }

    /// Receives into `buf[range]`; yields how many bytes came, 0 at the end of the stream.
    ///
    /// Dropping the future loses what it may have received.
    ///
    /// # Panics
    /// When the range lies outside the buffer.
    pub fn recv(
        &self,
        mut buf: AlignedBuf,
        range: Range<usize>,
    ) -> RingOperation<(io::Result<usize>, AlignedBuf)> {
        let target = &mut buf[range];
        let len = u32::try_from(target.len()).expect("a transfer is below 4 GiB");
        let ptr = target.as_mut_ptr();
        let entry = opcode::Recv::new(Fd(self.file.as_raw_fd()), ptr, len).build();
        let finish = |result, held| match held {
            OperationMemory::Buf(buf) => (outcome(result), buf),
            _ => unreachable!("a receive holds a buffer"),
        };
        self.ring.start(entry, OperationMemory::Buf(buf), &self.file, finish).cancel_on_drop()
    }

    /// Sends all parts in order, gathered; one caller at a time, or parts of messages mix.
    ///
    /// # Errors
    /// The system's; how much was sent is unknown then.
    pub async fn send_all(&self, parts: Vec<SendPart>) -> io::Result<()> {
        // SAFETY: all zeros is a valid `msghdr`: no name, no vectors, no control data.
        #[expect(unsafe_code, reason = "builds an empty C structure")]
        let header = unsafe { std::mem::zeroed() };
        let mut message = Box::new(Message { parts, vectors: Vec::new(), header });
        let mut sent = 0;
        while message.aim(sent) {
            let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL).cast_unsigned();
            let header = &raw const message.header;
            let entry =
                opcode::SendMsg::new(Fd(self.file.as_raw_fd()), header).flags(flags).build();
            let finish = |result, held| match held {
                OperationMemory::Message(message) => (outcome(result), message),
                _ => unreachable!("a send holds a message"),
            };
            let send =
                self.ring.start(entry, OperationMemory::Message(message), &self.file, finish);
            let result;
            (result, message) = send.cancel_on_drop().await;
            sent += match result {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(error),
            };
        }
        Ok(())
    }

    /// Ends both directions: pending and later receives yield 0, sends fail.
    pub fn shutdown(&self) {
        // SAFETY: the descriptor is open as long as `self.file` lives.
        #[expect(unsafe_code, reason = "no wrapper for descriptors of either family")]
        let _already_closed_is_fine =
            unsafe { libc::shutdown(self.file.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn ring_of(reactor: &Reactor) -> io::Result<Ring> {
    let missing = || io::Error::new(io::ErrorKind::Unsupported, "the simulator has no sockets");
    reactor.ring().ok_or_else(missing)
}

async fn accept(ring: &Ring, file: &RingFile) -> io::Result<Socket> {
    let (address, len) = (std::ptr::null_mut(), std::ptr::null_mut());
    let fd = Fd(file.as_raw_fd());
    let entry = opcode::Accept::new(fd, address, len).flags(libc::SOCK_CLOEXEC).build();
    let accepted = ring.start(entry, OperationMemory::NewFd, file, |result, _| new_fd(result));
    let fd = accepted.cancel_on_drop().await?;
    Ok(Socket { file: ring.plain(fd), ring: ring.clone() })
}

/// Accepts TCP connections.
pub struct TcpListener {
    file: RingFile,
    ring: Ring,
    address: SocketAddr,
}

impl TcpListener {
    /// Listens on `address`; port 0 picks a free one.
    ///
    /// # Errors
    /// The system's, or `Unsupported` in the simulator.
    pub fn bind(reactor: &Reactor, address: SocketAddr) -> io::Result<Self> {
        Self::from_std(reactor, std::net::TcpListener::bind(address)?)
    }

    /// Takes over a listening socket, such as one handed in by a service manager.
    ///
    /// # Errors
    /// The system's, or `Unsupported` in the simulator.
    pub fn from_std(reactor: &Reactor, listener: std::net::TcpListener) -> io::Result<Self> {
        let ring = ring_of(reactor)?;
        listener.set_nonblocking(false)?;
        let address = listener.local_addr()?;
        Ok(Self { file: ring.plain(listener.into()), ring, address })
    }

    /// The address it listens on.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next connection, with small messages sent at once.
    ///
    /// # Errors
    /// The system's; those of a single connection or of a lack of descriptors pass, and accepting may go on.
    pub async fn accept(&self) -> io::Result<Socket> {
        let socket = accept(&self.ring, &self.file).await?;
        let on: libc::c_int = 1;
        let (fd, len) = (socket.file.as_raw_fd(), size_of::<libc::c_int>());
        let len = libc::socklen_t::try_from(len).expect("4");
        let value = (&raw const on).cast();
        // SAFETY: the descriptor is open, and `value` points at `len` bytes that outlive the call.
        #[expect(unsafe_code, reason = "sets an option of the socket")]
        let set = unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, value, len) };
        if set == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
    }
}

/// Accepts unix stream connections. The socket file is removed when it is dropped.
pub struct UnixListener {
    file: RingFile,
    ring: Ring,
    path: Option<std::path::PathBuf>,
}

impl UnixListener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    /// The system's, or `Unsupported` in the simulator.
    pub fn bind(reactor: &Reactor, path: &Path) -> io::Result<Self> {
        let ring = ring_of(reactor)?;
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        Ok(Self { file: ring.plain(listener.into()), ring, path: Some(path.to_owned()) })
    }

    /// Takes over a listening socket, such as one handed in by a service manager; its file stays.
    ///
    /// # Errors
    /// The system's, or `Unsupported` in the simulator.
    pub fn from_std(
        reactor: &Reactor,
        listener: std::os::unix::net::UnixListener,
    ) -> io::Result<Self> {
        let ring = ring_of(reactor)?;
        listener.set_nonblocking(false)?;
        Ok(Self { file: ring.plain(listener.into()), ring, path: None })
    }

    /// The same listener, which removes its socket file at `path` when it is dropped.
    #[must_use]
    pub fn removing(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// The next connection.
    ///
    /// # Errors
    /// The system's; those of a single connection or of a lack of descriptors pass, and accepting may go on.
    pub async fn accept(&self) -> io::Result<Socket> {
        accept(&self.ring, &self.file).await
    }
}

impl Drop for UnixListener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Gone already is as good.
            drop(std::fs::remove_file(path));
        }
    }
}
