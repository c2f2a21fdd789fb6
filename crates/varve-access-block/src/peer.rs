//! Who is at the other end of a connection, and how a peer that is gone is noticed.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::net::sockopt;
use varve_stdx::SocketPeer;

/// A connection without traffic is probed after so long, so often, so many times: a peer whose machine or network is
/// gone is noticed within a minute.
const PROBED_AFTER: Duration = Duration::from_secs(30);
const PROBED_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// How long what was sent may stay unacknowledged, in milliseconds.
const UNACKNOWLEDGED_MS: u32 = 60_000;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// Of a network.
    Tcp(SocketAddr),
    /// A process of this machine.
    Process {
        /// Its id; 0 outside of this container.
        pid: i32,
        /// Its user.
        uid: u32,
    },
    /// Not known, such as that of a pipe.
    Unknown,
}

impl Peer {
    /// The peer of a connected stream socket.
    pub fn of(socket: impl AsFd) -> Self {
        let socket = socket.as_fd();
        match rustix::net::getpeername(socket) {
            Ok(Some(address)) => match SocketAddr::try_from(address) {
                // A client of IPv4 on a socket for both has its own address here.
                Ok(address) => {
                    Self::Tcp(SocketAddr::new(address.ip().to_canonical(), address.port()))
                }
                Err(_) => Self::process(socket),
            },
            _ => Self::process(socket),
        }
    }

    fn process(socket: BorrowedFd<'_>) -> Self {
        SocketPeer::of(socket)
            .map_or(Self::Unknown, |SocketPeer { pid, uid }| Self::Process { pid, uid })
    }

    /// Its address in a network.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Process { .. } | Self::Unknown => None,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Process { pid, uid } => write!(f, "process {pid} of user {uid}"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// Has peers that are gone noticed within about a minute, on a TCP connection, or on all that a listening socket
/// accepts.
///
/// # Errors
/// The system's.
pub fn notice_dead_peers(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, PROBED_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, PROBED_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    Ok(sockopt::set_tcp_user_timeout(socket, UNACKNOWLEDGED_MS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_and_accepted_connections_have_keepalive() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        notice_dead_peers(&listener).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(Peer::of(&accepted), Peer::Tcp(client.local_addr().unwrap()));
        assert!(sockopt::socket_keepalive(&accepted).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&accepted).unwrap(), PROBED_AFTER);
        assert_eq!(sockopt::tcp_user_timeout(&accepted).unwrap(), UNACKNOWLEDGED_MS);
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let Peer::Process { pid, .. } = Peer::of(&one) else { panic!("a pair has a process") };
        assert_eq!(u32::try_from(pid).unwrap(), std::process::id());
    }
}
