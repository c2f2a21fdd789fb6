//! Feature flags of a root: what a version must know before it may write, or even read.

use varve_stdx::{Reader, Writer};

use crate::{Error, error::Result};

/// Three words of flags, as in ext4. Each flag is given out once, in `docs/format.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features {
    /// Whoever does not know a flag may read and write, and keeps it.
    pub compat: u64,
    /// Whoever does not know a flag may read, and must not write.
    pub ro_compat: u64,
    /// Whoever does not know a flag must not even read.
    pub incompat: u64,
}

const _: () = assert!(Features::FOREIGN_NAMES & Features::PAGE_COPIES == 0);

impl Features {
    /// Encoded length in bytes.
    pub const LEN: usize = 24;
    /// Flags of `ro_compat` that this version knows.
    pub const RO_COMPAT_KNOWN: u64 = 0;
    /// Flags of `incompat` that this version knows.
    pub const INCOMPAT_KNOWN: u64 = Self::FOREIGN_NAMES | Self::PAGE_COPIES | Self::WITHDRAWN_ZONES;
    /// Incompatible, in shard roots: maps name chunks of other shards.
    pub const FOREIGN_NAMES: u64 = 1;
    /// Incompatible, in the root of a redundant pool: zones may be withdrawn.
    pub const WITHDRAWN_ZONES: u64 = 1;
    /// Incompatible, in shard roots: it names second copies of segments.
    pub const PAGE_COPIES: u64 = 2;

    /// Says whether this version may write.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the unknown flags of `ro_compat`.
    pub fn check_writable(&self, what: &'static str) -> Result<()> {
        match self.ro_compat & !Self::RO_COMPAT_KNOWN {
            0 => Ok(()),
            flags => Err(Error::Unsupported { what, flags }),
        }
    }

    pub(super) fn write(&self, out: &mut Writer<'_>) {
        out.u64(self.compat);
        out.u64(self.ro_compat);
        out.u64(self.incompat);
    }

    pub(super) fn read(fields: &mut Reader<'_>, what: &'static str) -> Result<Self> {
        let features =
            Self { compat: fields.u64()?, ro_compat: fields.u64()?, incompat: fields.u64()? };
        match features.incompat & !Self::INCOMPAT_KNOWN {
            0 => Ok(features),
            flags => Err(Error::Unsupported { what, flags }),
        }
    }
}
