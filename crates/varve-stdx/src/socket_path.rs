//! Sockets that are bound to a path of the file system.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens at `path`, on a socket that is its owner's from the first moment on: its file gets the mode that the socket has. One inode is
/// all it takes, so that a daemon starts on a full file system too. A socket that a killed server left behind is replaced.
///
/// # Errors
/// `AddrInUse` when somebody listens there, `AlreadyExists` when something that is not a socket is there, and the system's.
pub fn bind_private(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket that refuses connections, as a killed server leaves it. Whatever else is at the path stays, and is in the way.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let why =
            "something that is not a socket is at this path; remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        // Somebody has removed it meanwhile, or it is somebody's whose queue is full.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_socket_is_its_owners_and_replaces_only_what_nobody_listens_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = bind_private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(bind_private(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        bind_private(&path).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        assert_eq!(bind_private(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}
