//! The sockets that clients connect to: made once a node stands by, and handed on to what serves the pool, so that connections that wait in them are not lost.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use varve_access_admin::ListenAddress;
use varve_access_nbd::StdListener;
use varve_membership::link::FrontEnd;

use crate::config::{S3Listen, Settings};
use crate::daemon::pool::{nbd_sockets, unable_to_listen};
use crate::failure::{Failure, Result};

/// See the module.
pub(crate) struct FrontSockets {
    /// As the settings have them.
    pub(crate) nbd: Vec<StdListener>,
    /// Where S3 is wanted, and the address was free.
    pub(crate) s3: Option<std::net::TcpListener>,
    /// The admin API's.
    pub(crate) admin: Vec<varve_access_admin::Listener>,
}

impl FrontSockets {
    /// Listens where the settings say, beside the admin API's sockets.
    pub(crate) fn bind(
        settings: &Settings,
        admin: Vec<varve_access_admin::Listener>,
    ) -> Result<Self> {
        let nbd = nbd_sockets(&settings.nbd_addresses(), settings.nbd_listen.is_empty());
        let nbd = nbd.map_err(|error| unable_to_listen(&error))?;
        let s3 = match &settings.s3.asked() {
            S3Listen::Off => None,
            S3Listen::At(ListenAddress::Tcp(address)) => Some(listen_s3(*address)?),
            S3Listen::At(ListenAddress::Unix(_)) => None, // The settings have been checked.
            S3Listen::Default => listen_s3(S3Listen::DEFAULT)
                .inspect_err(|failure| tracing::warn!(why = failure.what(), "S3 is not carried"))
                .ok(),
        };
        Ok(Self { nbd, s3, admin })
    }

    /// The same sockets, to accept from for a while.
    pub(super) fn listeners(&self) -> io::Result<Vec<(FrontEnd, ClientListener)>> {
        let mut listeners = Vec::new();
        for socket in &self.nbd {
            let listener = match socket {
                StdListener::Unix(socket, _) | StdListener::Inherited(socket) => {
                    ClientListener::unix(socket.try_clone()?)?
                }
                StdListener::Tcp(socket) => ClientListener::tcp(socket.try_clone()?)?,
            };
            listeners.push((FrontEnd::Nbd, listener));
        }
        if let Some(socket) = &self.s3 {
            listeners.push((FrontEnd::S3, ClientListener::tcp(socket.try_clone()?)?));
        }
        for listener in &self.admin {
            let fd = listener.as_fd().try_clone_to_owned()?;
            let listener = match listener.address() {
                ListenAddress::Unix(_) => ClientListener::unix(fd.into())?,
                ListenAddress::Tcp(_) => ClientListener::tcp(fd.into())?,
            };
            listeners.push((FrontEnd::Admin, listener));
        }
        Ok(listeners)
    }
}

fn listen_s3(address: SocketAddr) -> Result<std::net::TcpListener> {
    std::net::TcpListener::bind(address).map_err(|error| {
        Failure::new(format!("S3: listen on {address}: {error}"))
            .hint("see whether another process holds the address, choose another with --s3, or none with --s3 none")
    })
}

/// Accepts clients.
pub(super) enum ClientListener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl ClientListener {
    fn unix(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        UnixListener::from_std(socket).map(Self::Unix)
    }

    fn tcp(socket: std::net::TcpListener) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        TcpListener::from_std(socket).map(Self::Tcp)
    }

    pub(super) async fn accept(&self) -> io::Result<ClientStream> {
        match self {
            Self::Unix(socket) => {
                socket.accept().await.map(|(stream, _)| ClientStream::Unix(stream))
            }
            Self::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                stream.set_nodelay(true)?;
                Ok(ClientStream::Tcp(stream, address))
            }
        }
    }
}

/// A client's connection. Both directions may be used at the same time.
pub(super) enum ClientStream {
    Unix(UnixStream),
    Tcp(TcpStream, SocketAddr),
}

impl ClientStream {
    /// Where it comes from, if it comes from a network.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(_, address) => Some(*address),
        }
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.readable().await,
            Self::Tcp(stream, _) => stream.readable().await,
        }
    }

    /// Reads what is there; 0 at the end, `None` when nothing is there now.
    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Unix(stream) => stream.try_read(buffer),
            Self::Tcp(stream, _) => stream.try_read(buffer),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    pub(super) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
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
    pub(super) fn end(&self) {
        let fd = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream, _) => stream.as_fd(),
        };
        // A client that has gone need not be told.
        let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Write);
    }
}
