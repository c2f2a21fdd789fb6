//! The sockets that clients connect to, as long as the node is there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, UnixListener};
use varve_access_admin::{ListenAddress, Token};
use varve_access_block::notice_dead_peers;
use varve_access_nbd::StdListener;
use varve_client::{Failure, Result};
use varve_relay::ClientStream;
use varve_relay::wire::FrontEnd;

use super::admin::BoxedStream;
use crate::config::{S3Listen, Settings};
use crate::pool::{admin_address, nbd_sockets, unable_to_listen};
use crate::socket_access::SocketAccess;

/// See the module.
pub(crate) struct FrontSockets {
    /// As the settings have them.
    pub(crate) nbd: Vec<StdListener>,
    pub(crate) s3: Arc<S3Socket>,
    /// The admin API's.
    pub(crate) admin: Vec<varve_access_admin::Listener>,
    /// What its callers by TCP show.
    pub(crate) token: Option<Arc<Token>>,
}

/// That of S3.
pub(crate) enum S3Socket {
    /// Nobody wants it.
    Off,
    /// It is not to be had; at the default address nobody asked for it.
    Failed { failure: Failure, is_asked: bool },
    /// It is there.
    At(std::net::TcpListener, SocketAddr),
}

impl FrontSockets {
    /// Listens where the settings say, beside the admin API's sockets.
    pub(crate) fn bind(
        settings: &Settings,
        admin: Vec<varve_access_admin::Listener>,
        token: Option<Arc<Token>>,
    ) -> Result<Self> {
        let access = SocketAccess::of(settings)?;
        let inherited_instead = settings.nbd.listen.is_empty();
        let nbd = nbd_sockets(&settings.nbd_addresses(), access, inherited_instead);
        let nbd = nbd.map_err(|error| unable_to_listen(&error))?;
        let s3 = S3Socket::bind(settings);
        Ok(Self { nbd, s3: Arc::new(s3), admin, token })
    }

    /// Where clients of NBD connect.
    pub(super) fn nbd_addresses(&self) -> Vec<ListenAddress> {
        self.nbd.iter().map(|socket| admin_address(&socket.address())).collect()
    }

    /// What accepts from them.
    pub(super) fn listeners(&self) -> io::Result<Vec<(FrontEnd, ClientListener)>> {
        let mut listeners = Vec::new();
        for socket in &self.nbd {
            let listener = match socket {
                StdListener::Unix(socket, _) | StdListener::Inherited(socket) => {
                    ClientListener::unix(socket.try_clone()?)?
                }
                StdListener::Tcp(socket) => ClientListener::tcp(socket.try_clone()?)?,
            };
            listeners.push((FrontEnd::Export, listener));
        }
        if let S3Socket::At(socket, _) = &*self.s3 {
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

impl Drop for FrontSockets {
    /// Files of sockets that nobody listens on any more are in the way of whoever looks for a server.
    fn drop(&mut self) {
        for socket in &self.nbd {
            if let StdListener::Unix(_, path) = socket {
                // Somebody may have removed it.
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

impl S3Socket {
    /// Listens where the settings say. What is wrong with it keeps no volume from being served, and is told in the log.
    pub(crate) fn bind(settings: &Settings) -> Self {
        let (address, is_asked) = match settings.s3.effective_listen() {
            S3Listen::Off => return Self::Off,
            S3Listen::Default => (S3Listen::DEFAULT, false),
            S3Listen::At(ListenAddress::Tcp(address)) => (address, true),
            S3Listen::At(ListenAddress::Unix(_)) => unreachable!("the settings were checked"),
        };
        let bound = std::net::TcpListener::bind(address);
        let bound = bound.and_then(|socket| {
            notice_dead_peers(&socket)?;
            Ok((socket.local_addr()?, socket))
        });
        match bound {
            Ok((at, socket)) => {
                if !at.ip().is_loopback() && settings.s3.certificate.is_none() {
                    tracing::warn!(
                        address = %at,
                        "S3 is served to other machines over plain HTTP: objects can be read and changed on the way. \
                         Set s3.certificate and s3.key, or listen on a loopback address behind a proxy with TLS"
                    );
                }
                Self::At(socket, at)
            }
            Err(error) => {
                let failure = Failure::new(format!("S3: listen on {address}: {error}"))
                    .hint("see whether another process holds the address, choose another with --s3, or none with --s3 none");
                if is_asked {
                    tracing::error!(why = failure.what(), "S3 is not served");
                } else {
                    tracing::warn!(why = failure.what(), "S3 is not served");
                }
                Self::Failed { failure, is_asked }
            }
        }
    }
}

/// A client for who only reads and writes.
pub(super) fn accepted_stream(client: ClientStream) -> BoxedStream {
    match client {
        ClientStream::Unix(stream) => Box::new(stream),
        ClientStream::Tcp(stream, _) => Box::new(stream),
    }
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
