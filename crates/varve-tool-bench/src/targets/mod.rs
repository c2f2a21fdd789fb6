//! What loads are put on: named by users, opened by each job as a disk of its own.

mod nbd;
mod null;

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::str::FromStr;

use varve_media::{Disk, MemDisk, UringDisk};
use varve_reactor::Reactor;
use varve_types::{ByteCount, parse_size};

use crate::error::{Error, Result};

pub use nbd::{NbdAddress, NbdUri};

/// A target as users name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// `null:SIZE`: answers at once and keeps nothing.
    Null {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// `memory:SIZE`: memory of this process, of each job its own.
    Memory {
        /// Size in bytes.
        size_bytes: u64,
    },
    /// A file or block device, read and written directly (`O_DIRECT`) through io_uring.
    File(PathBuf),
    /// An export of an NBD server.
    Nbd(NbdUri),
}

impl Target {
    /// Opens it for one job, on the thread of `reactor`.
    ///
    /// # Errors
    /// `Media` when it cannot be opened; `Handshake` when a server does not give it.
    ///
    /// # Panics
    /// In the simulator, for files and servers.
    pub fn open(&self, reactor: &Reactor) -> Result<Rc<dyn Disk>> {
        Ok(match self {
            Self::Null { size_bytes } => Rc::new(null::NullDisk::new(*size_bytes)),
            Self::Memory { size_bytes } => Rc::new(MemDisk::new("memory", *size_bytes)),
            Self::File(path) => Rc::new(UringDisk::open(reactor, path)?),
            Self::Nbd(uri) => Rc::new(nbd::NbdDisk::connect(reactor, uri)?),
        })
    }

    /// Whether writes destroy what somebody may want to keep.
    #[must_use]
    pub fn keeps_data(&self) -> bool {
        matches!(self, Self::File(_) | Self::Nbd(_))
    }

    /// Whether a read can find what was written.
    #[must_use]
    pub fn can_verify(&self) -> bool {
        !matches!(self, Self::Null { .. })
    }
}

impl FromStr for Target {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let size = |size: &str| {
            let refused = |reason| Error::Target { target: text.to_owned(), reason };
            parse_size(size).map(|bytes| bytes.0).map_err(refused)
        };
        if let Some(rest) = text.strip_prefix("null:") {
            return Ok(Self::Null { size_bytes: size(rest)? });
        }
        if let Some(rest) = text.strip_prefix("memory:") {
            return Ok(Self::Memory { size_bytes: size(rest)? });
        }
        if text.starts_with("nbd") && text.contains("://") {
            return NbdUri::from_str(text).map(Self::Nbd);
        }
        if text.contains("://") || text.is_empty() {
            let reason = "neither a path nor a kind of target that is known".to_owned();
            return Err(Error::Target { target: text.to_owned(), reason });
        }
        Ok(Self::File(PathBuf::from(text)))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null { size_bytes } => write!(f, "null, {}", ByteCount(*size_bytes)),
            Self::Memory { size_bytes } => write!(f, "memory, {}", ByteCount(*size_bytes)),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Nbd(uri) => uri.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_users_write_them() {
        assert_eq!("null:1GiB".parse::<Target>().unwrap(), Target::Null { size_bytes: 1 << 30 });
        assert_eq!(
            "memory:64MiB".parse::<Target>().unwrap(),
            Target::Memory { size_bytes: 64 << 20 }
        );
        assert_eq!("/dev/sdb".parse::<Target>().unwrap(), Target::File("/dev/sdb".into()));
        assert!(matches!("nbd://localhost/v".parse::<Target>().unwrap(), Target::Nbd(_)));
        for wrong in ["", "null:", "null:5XB", "rbd://pool/image", "nbds://localhost/v"] {
            let error = wrong.parse::<Target>().unwrap_err();
            assert!(matches!(error, Error::Target { .. }), "{wrong}: {error}");
        }
    }
}
