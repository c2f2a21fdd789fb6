//! Where servers listen, and the sockets to them.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NbdAddress {
    /// `HOST:PORT`.
    Tcp(String),
    /// Path of a socket.
    Unix(PathBuf),
}

/// A connected socket that blocks.
#[derive(Debug)]
pub enum NbdStream {
    /// Of a network.
    Tcp(TcpStream),
    /// Of this machine.
    Unix(UnixStream),
}

impl NbdStream {
    /// Connects. Small requests are sent at once.
    ///
    /// # Errors
    /// The system's.
    pub fn connect(address: &NbdAddress) -> io::Result<Self> {
        Ok(match address {
            NbdAddress::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
            NbdAddress::Unix(path) => Self::Unix(UnixStream::connect(path)?),
        })
    }

    /// How long a read waits; `None` for ever.
    ///
    /// # Errors
    /// The system's.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
            Self::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Read for NbdStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
        }
    }
}

impl Write for NbdStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(buf),
            Self::Unix(stream) => stream.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

impl From<NbdStream> for OwnedFd {
    fn from(stream: NbdStream) -> Self {
        match stream {
            NbdStream::Tcp(stream) => stream.into(),
            NbdStream::Unix(stream) => stream.into(),
        }
    }
}
