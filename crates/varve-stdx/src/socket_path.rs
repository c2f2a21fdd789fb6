//! Sockets that are bound to a path of the file system.
//!
//! A socket that a killed server left behind may take connections for a while: what its ring holds is closed some time
//! after its end. It is dead when the process that began to listen has ended, and no other holds the socket. Where the
//! system does not show whether one does, it may be alive.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, geteuid, test_kill_process};

use crate::socket_peer::SocketPeer;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// In the flags of `/proc/net/unix`: it listens.
const IS_LISTENING: &str = "00010000";

/// In the flags of a thread: it is being taken down.
const IS_EXITING: u64 = 4;

/// Listens at `path`, on a socket that is its owner's from the first moment on: its file gets the mode that the socket
/// has. One inode is all it takes, so that a daemon starts on a full file system too. A socket that a killed server
/// left behind is replaced.
///
/// # Errors
/// `AddrInUse` when a process listens there, `ResourceBusy` when nothing is known of the process, as it runs, or ran a
/// moment ago, outside of this container, as another user or on the socket by another path, or the socket's queue is
/// full; `AlreadyExists` when something that is not a socket is there, and the system's.
pub fn bind_private(path: &Path) -> io::Result<UnixListener> {
    remove_stale(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Removes a socket that no process listens on, as a killed server leaves it. Whatever else is at the path stays, and
/// is in the way.
fn remove_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let why =
            "something that is not a socket is at this path; remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    let holder = match connect(path) {
        Ok(peer) => Holder::of(path, peer),
        Err(Errno::CONNREFUSED) => Holder::Nobody,
        Err(Errno::AGAIN) => Holder::Unknown, // Its queue is full.
        Err(_) => return Ok(()), // Somebody has removed it meanwhile, or binding says what is wrong.
    };
    match holder {
        Holder::Nobody => fs::remove_file(path),
        Holder::Process(pid) => {
            let why = format!("process {pid} listens there");
            Err(io::Error::new(io::ErrorKind::AddrInUse, why))
        }
        Holder::Unknown => {
            let why = "somebody listens there, and the system does not say which process it is";
            Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
        }
    }
}

/// Connects, without waiting, and goes; the process that began to listen.
fn connect(path: &Path) -> rustix::io::Result<SocketPeer> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(SocketPeer::of(&socket).unwrap_or(SocketPeer { pid: 0, uid: 0 }))
}

/// Who has a socket that takes connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Holder {
    /// No process.
    Nobody,
    Process(u32),
    Unknown,
}

impl Holder {
    fn of(path: &Path, peer: SocketPeer) -> Self {
        match (u32::try_from(peer.pid), Pid::from_raw(peer.pid.max(0))) {
            (Ok(pid), Some(listener)) if is_alive(listener) => Self::Process(pid),
            (Ok(_), Some(_)) if sees_files_of(peer.uid) => match Self::heir(path) {
                Some(heir) => heir,
                // It was closed since, or has another name.
                None if connect(path) == Err(Errno::CONNREFUSED) => Self::Nobody,
                None => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// The process, of those that this one may look into, that has the listener at a path though another one began to
    /// listen: a server that forks has. `None` when the system lists no listener by this path: it was bound by another
    /// one, such as a relative one or one through a link, or in another container.
    fn heir(path: &Path) -> Option<Self> {
        let path = std::path::absolute(path).ok()?;
        let table = fs::read("/proc/net/unix").ok()?;
        let lines = table.split(|byte| *byte == b'\n');
        let listeners: Vec<PathBuf> =
            lines.filter_map(|line| listener_at(line, path.as_os_str())).collect();
        if listeners.is_empty() {
            return None;
        }
        for process in fs::read_dir("/proc").ok()?.flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
            let mut links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
            if links.any(|link| listeners.contains(&link)) {
                return Some(Self::Process(pid));
            }
        }
        Some(Self::Nobody)
    }
}

/// Whether the system shows this process which files those of a user have open.
fn sees_files_of(uid: u32) -> bool {
    let own = geteuid();
    own.is_root() || own.as_raw() == uid
}

/// Whether a thread of a process goes on: its first one may have ended before.
fn is_alive(pid: Pid) -> bool {
    match fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(threads) => {
            let stats = threads.flatten().map(|thread| fs::read(thread.path().join("stat")));
            stats.flatten().any(|stat| !is_ending(&stat))
        }
        Err(_) => test_kill_process(pid) != Err(Errno::SRCH),
    }
}

/// Whether a thread is a zombie, or about to be one. Its name stands before this and may hold anything; a parenthesis
/// ends it.
fn is_ending(stat: &[u8]) -> bool {
    let behind_name = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
    let text = String::from_utf8_lossy(behind_name);
    let mut fields = text.split_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    matches!(state, Some("Z" | "X")) || flags.is_some_and(|flags| flags & IS_EXITING != 0)
}

/// What links to the socket of a line of `/proc/net/unix`, if it listens at a path.
fn listener_at(line: &[u8], path: &OsStr) -> Option<PathBuf> {
    let line = line.strip_suffix(path.as_bytes())?.strip_suffix(b" ")?;
    let line = String::from_utf8_lossy(line);
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields.as_slice() {
        [_, _, _, flags, _, _, inode] if *flags == IS_LISTENING => {
            Some(PathBuf::from(format!("socket:[{inode}]")))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{IoSlice, Read};
    use std::mem::MaybeUninit;
    use std::os::fd::{AsFd, OwnedFd};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

    use super::*;

    /// Makes a process that runs a test listen at this path, and end.
    const LISTEN_AT: &str = "VARVE_TEST_LISTEN_AT";

    /// Runs a test in a process of its own, which listens at the path and ends; the listener lives as long as what this
    /// returns.
    fn listen_elsewhere(test: &str, path: &Path) -> UnixStream {
        let (here, there) = UnixStream::pair().unwrap();
        let test = format!("socket_path::tests::{test}");
        let ended = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &test])
            .env(LISTEN_AT, path)
            .stdin(OwnedFd::from(there))
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(ended.success());
        here
    }

    /// Starts a process that holds the listener until its input ends.
    fn leave_to_heir(listener: UnixListener) {
        let heir = ["-c", "exec 3<&0; cat <&3 &"];
        let started = Command::new("sh").args(heir).stdout(OwnedFd::from(listener)).status();
        assert!(started.unwrap().success());
    }

    #[test]
    fn a_socket_is_its_owners_and_replaces_only_what_nobody_listens_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = bind_private(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let refused = bind_private(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let listens = format!("process {} listens there", std::process::id());
        assert_eq!(refused.to_string(), listens);
        drop(listener);
        bind_private(&path).unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "precious").unwrap();
        assert_eq!(bind_private(&file).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    }

    #[test]
    fn a_socket_that_outlives_its_process_is_replaced() {
        if let Some(path) = std::env::var_os(LISTEN_AT) {
            // The listener stays open in a message that nobody takes.
            let listener = UnixListener::bind(path).unwrap();
            let files = [listener.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut message = SendAncillaryBuffer::new(&mut space);
            assert!(message.push(SendAncillaryMessage::ScmRights(&files)));
            let (stdin, bytes) = (io::stdin(), [IoSlice::new(b"x")]);
            net::sendmsg(&stdin, &bytes, &mut message, SendFlags::empty()).unwrap();
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let held = listen_elsewhere("a_socket_that_outlives_its_process_is_replaced", &path);
        UnixStream::connect(&path).unwrap(); // It takes connections still.
        bind_private(&path).unwrap();
        drop(held);
    }

    #[test]
    fn a_socket_that_another_process_inherited_stays() {
        if let Some(path) = std::env::var_os(LISTEN_AT) {
            return leave_to_heir(UnixListener::bind(path).unwrap());
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let held = listen_elsewhere("a_socket_that_another_process_inherited_stays", &path);
        assert_eq!(bind_private(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
        drop(held);
    }

    #[test]
    fn a_socket_that_was_bound_by_another_name_stays() {
        if let Some(path) = std::env::var_os(LISTEN_AT) {
            let path = Path::new(&path);
            std::env::set_current_dir(path.parent().unwrap()).unwrap();
            return leave_to_heir(UnixListener::bind(path.file_name().unwrap()).unwrap());
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let held = listen_elsewhere("a_socket_that_was_bound_by_another_name_stays", &path);
        assert_eq!(bind_private(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert!(path.exists());
        drop(held);
    }

    #[test]
    fn a_process_that_has_ended_and_was_not_waited_for_is_dead() {
        let mut child =
            Command::new("sh").args(["-c", ":"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        // It is being taken down once its files are closed.
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
        assert!(!is_alive(Pid::from_child(&child)));
        child.wait().unwrap();
    }

    #[test]
    fn processes_that_end_are_told_from_those_that_live() {
        for (stat, expected) in [
            ("12 (varve) S 1 12 12 0 -1 4194560 9 0", false),
            ("12 (varve) Z 1 12 12 0 -1 4194560 9 0", true),
            ("12 (varve) R 1 12 12 0 -1 4194564 9 0", true),
            ("12 (a) Z 1 (b) S 1 12 12 0 -1 4194560 9 0", false),
            ("", false),
        ] {
            assert_eq!(is_ending(stat.as_bytes()), expected, "{stat}");
        }
        let itself = Pid::from_raw(std::process::id().try_into().unwrap()).unwrap();
        assert!(is_alive(itself));
        let unknown = Holder::of(Path::new("/"), SocketPeer { pid: 0, uid: 0 });
        assert_eq!(unknown, Holder::Unknown);
    }
}
