//! A client's connection, and TLS on it where this node is the end of that.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::{TcpStream, UnixStream};
use varve_access_nbd::TlsSession;

/// A client's connection. Both directions may be used at the same time.
pub enum ClientStream {
    /// On this machine.
    Unix(UnixStream),
    /// On a network, at that address.
    Tcp(TcpStream, SocketAddr),
}

impl ClientStream {
    /// Where it comes from, if it comes from a network.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(_, address) => Some(*address),
        }
    }

    /// Waits until there is something to read, or the end.
    pub async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.readable().await,
            Self::Tcp(stream, _) => stream.readable().await,
        }
    }

    /// Reads what is there; 0 at the end, `None` when nothing is there now.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Unix(stream) => stream.try_read(buffer),
            Self::Tcp(stream, _) => stream.try_read(buffer),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    /// Reads at least one byte; 0 at the end.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.readable().await?;
            if let Some(count) = self.try_read(buffer)? {
                return Ok(count);
            }
        }
    }

    /// Returns once all of it is in the socket.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = match self {
                Self::Unix(stream) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
                Self::Tcp(stream, _) => {
                    stream.writable().await?;
                    stream.try_write(bytes)
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Nothing more is written.
    pub fn end(&self) {
        let fd = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream, _) => stream.as_fd(),
        };
        // A client that has gone need not be told.
        let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
    }

    /// The socket in blocking mode, for whoever takes it over.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        match self {
            Self::Unix(stream) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(stream.into())
            }
            Self::Tcp(stream, _) => {
                let stream = stream.into_std()?;
                stream.set_nonblocking(false)?;
                Ok(stream.into())
            }
        }
    }
}

/// A client whose connection is carried, in plain text.
pub struct RelayedClient {
    stream: ClientStream,
    /// Where it uses TLS, of which this is the end. The lock is held while bytes are moved in memory.
    tls: Option<Mutex<TlsSession>>,
}

impl RelayedClient {
    /// A client, and its session where it uses TLS.
    pub fn new(stream: ClientStream, session: Option<TlsSession>) -> Self {
        Self { stream, tls: session.map(Mutex::new) }
    }

    /// Whether it is on this machine.
    pub(crate) fn is_here(&self) -> bool {
        self.stream.address().is_none()
    }

    fn session(tls: &Mutex<TlsSession>) -> MutexGuard<'_, TlsSession> {
        tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        self.stream.readable().await
    }

    /// As that of the stream; with `None` the socket is empty too.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &self.tls {
            None => self.stream.try_read(buffer),
            Some(tls) => {
                Self::session(tls).read_with(buffer, |cipher| self.stream.try_read(cipher))
            }
        }
    }

    pub(crate) async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &self.tls else { return self.stream.write_all(bytes).await };
        let mut sealed = Vec::new();
        Self::session(tls).seal(bytes, &mut sealed)?;
        self.stream.write_all(&sealed).await
    }

    /// Nothing more is written.
    pub(crate) async fn end(&self) {
        if let Some(tls) = &self.tls {
            let mut last = Vec::new();
            Self::session(tls).say_end(&mut last);
            // A client that has gone need not be told.
            let _ = self.stream.write_all(&last).await;
        }
        self.stream.end();
    }
}
