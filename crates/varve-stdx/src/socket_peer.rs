//! Which process is at the other end of a unix socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

const UCRED_BYTES: libc::socklen_t = 12;
const _: () = assert!(size_of::<libc::ucred>() == 12);

/// A process, as the system knows it at the other end of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketPeer {
    /// Its id; 0 for one that this process cannot see, as it runs outside of this container.
    pub pid: i32,
    /// Its user.
    pub uid: u32,
}

impl SocketPeer {
    /// The peer of a connected unix socket: the process that connected, or the one that began to listen.
    ///
    /// # Errors
    /// `NotConnected` when the socket has no such peer, and the system's.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        // That of rustix has a process id that cannot be 0.
        let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
        let fd = socket.as_fd().as_raw_fd();
        let mut len = UCRED_BYTES;
        let (value, room) = ((&raw mut peer).cast(), &raw mut len);
        // SAFETY: the descriptor is open, and `value` points at `room` bytes that outlive the call.
        #[expect(unsafe_code, reason = "reads an option of the socket")]
        let got = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, value, room) };
        if got != 0 {
            return Err(io::Error::last_os_error());
        }
        if peer.uid == u32::MAX {
            return Err(io::ErrorKind::NotConnected.into());
        }
        Ok(Self { pid: peer.pid, uid: peer.uid })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn the_peer_is_the_process_at_the_other_end() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = SocketPeer::of(&one).unwrap();
        assert_eq!(u32::try_from(peer.pid).unwrap(), std::process::id());
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(SocketPeer::of(&tcp).unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert!(SocketPeer::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
