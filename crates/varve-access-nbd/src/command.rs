//! From a request header to a command that may run, or to the error its reply carries.

use varve_access_block::ExportInfo;
use varve_nbd::constant::{cmd, flag};
use varve_nbd::{Framing, RequestHeader};
use varve_types::limits::REQUEST_BYTES_MAX;

use crate::errno::Errno;
use crate::handshake::NegotiatedExport;
use crate::limits::{CACHE_PIECE_BYTES, EXTENT_BYTES, EXTENT_SPAN_BYTES_MIN, EXTENTS_MAX};

/// A request whose flags and range were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckedCommand {
    /// Send `len` bytes, as one chunk if `unfragmented`.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes, at most [`REQUEST_BYTES_MAX`].
        len: u32,
        /// The client wants a single chunk.
        unfragmented: bool,
    },
    /// Write the payload that follows the header.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes of payload, at most [`REQUEST_BYTES_MAX`].
        len: u32,
    },
    /// Finish what is under way and close, without a reply.
    Disconnect,
    /// Make durable what was replied to.
    Flush,
    /// Give a range back.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Read a range into the cache.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Make a range read as zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// The range must stay allocated.
        keep_allocated: bool,
        /// Fail rather than be as slow as writing.
        fast_only: bool,
    },
    /// Tell what the selected contexts say of a range.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Bytes, at least one.
        len: u64,
        /// The client wants a single extent.
        one_extent: bool,
        /// The contexts; at least one.
        contexts: Contexts,
    },
}

/// Metadata contexts that a client selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Contexts {
    /// `base:allocation`: holes and zeros.
    pub allocation: bool,
    /// How many of the changes since a snapshot.
    pub changes: u8,
}

impl Contexts {
    /// Whether none was selected.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn count(self) -> usize {
        usize::from(self.allocation) + usize::from(self.changes)
    }
}

impl CheckedCommand {
    /// Bytes of payload that the request holds in memory until its reply is sent; of a block status, those of the
    /// extents that its reply may have.
    pub(crate) fn payload_bytes(self) -> usize {
        match self {
            Self::Read { len, .. } | Self::Write { len, .. } => to_usize(len),
            Self::Cache { len, .. } => {
                to_usize(u32::try_from(len).unwrap_or(u32::MAX).min(CACHE_PIECE_BYTES))
            }
            Self::BlockStatus { len, one_extent, contexts, .. } => {
                extents_max(len, one_extent) * EXTENT_BYTES * contexts.count()
            }
            Self::Disconnect | Self::Flush | Self::Trim { .. } | Self::WriteZeroes { .. } => 0,
        }
    }
}

/// Most extents that a context has in the reply to a block status of `len` bytes.
pub(crate) fn extents_max(len: u64, one_extent: bool) -> usize {
    if one_extent {
        return 1;
    }
    let extents = len / EXTENT_SPAN_BYTES_MIN + 2; // Those at its ends may be shorter.
    usize::try_from(extents).unwrap_or(usize::MAX).min(EXTENTS_MAX)
}

/// Checks a request against the export's state now.
///
/// FUA is accepted on every command and asks for nothing: effects are durable on return (BLOCK-EXPORT-1).
///
/// # Errors
/// The number for the reply. The payload of a refused request still follows and must be skipped before that is sent.
#[inline]
pub fn admit(
    header: &RequestHeader,
    info: ExportInfo,
    negotiated: NegotiatedExport,
) -> Result<CheckedCommand, Errno> {
    let RequestHeader { flags, command, cookie: _, offset, len } = *header;
    let NegotiatedExport { framing, contexts } = negotiated;
    let is_extended = framing == Framing::Extended;
    let allowed = flag::FUA
        | match command {
            cmd::READ if framing.has_chunks() => flag::DF,
            cmd::WRITE if is_extended => flag::PAYLOAD_LEN,
            cmd::WRITE_ZEROES => flag::NO_HOLE | flag::FAST_ZERO,
            cmd::BLOCK_STATUS => flag::REQ_ONE,
            _ => 0,
        };
    let has = |bit: u16| flags & bit != 0;
    match command {
        // Nothing could be replied; and some clients fill in the range of a flush.
        cmd::DISC => return Ok(CheckedCommand::Disconnect),
        cmd::FLUSH if flags & !allowed == 0 => return Ok(CheckedCommand::Flush),
        cmd::WRITE | cmd::TRIM | cmd::WRITE_ZEROES if info.read_only => return Err(Errno::Perm),
        _ if flags & !allowed != 0 => return Err(Errno::Inval),
        // It says that no data follows.
        cmd::WRITE if is_extended && !has(flag::PAYLOAD_LEN) => return Err(Errno::Inval),
        _ => {}
    }
    let end = offset.checked_add(len);
    let inside = end.is_some_and(|end| end <= info.size_bytes);
    let payload_len = u32::try_from(len).ok().filter(|len| *len <= REQUEST_BYTES_MAX);
    match (command, payload_len) {
        (cmd::READ, _) if !inside => Err(Errno::Inval),
        (cmd::READ, Some(len)) => {
            Ok(CheckedCommand::Read { offset, len, unfragmented: has(flag::DF) })
        }
        (cmd::READ, None) if framing.has_chunks() => Err(Errno::Overflow),
        (cmd::READ, None) => Err(Errno::Inval),
        (cmd::WRITE, None) => Err(Errno::Inval),
        (cmd::WRITE, Some(_)) if !inside => Err(Errno::NoSpc),
        (cmd::WRITE, Some(len)) => Ok(CheckedCommand::Write { offset, len }),
        (cmd::TRIM, _) if !inside => Err(Errno::Inval),
        (cmd::TRIM, _) => Ok(CheckedCommand::Trim { offset, len }),
        (cmd::CACHE, _) if !inside => Err(Errno::Inval),
        (cmd::CACHE, _) => Ok(CheckedCommand::Cache { offset, len }),
        (cmd::WRITE_ZEROES, _) if !inside => Err(Errno::NoSpc),
        (cmd::WRITE_ZEROES, _) => Ok(CheckedCommand::WriteZeroes {
            offset,
            len,
            keep_allocated: has(flag::NO_HOLE),
            fast_only: has(flag::FAST_ZERO),
        }),
        (cmd::BLOCK_STATUS, _) if !inside || len == 0 || contexts.is_empty() => Err(Errno::Inval),
        (cmd::BLOCK_STATUS, _) => Ok(CheckedCommand::BlockStatus {
            offset,
            len,
            one_extent: has(flag::REQ_ONE),
            contexts,
        }),
        _ => Err(Errno::Inval),
    }
}

/// A 32-bit length as an index.
pub(crate) fn to_usize(len: u32) -> usize {
    const { assert!(usize::BITS >= 32) };
    usize::try_from(len).expect("usize has at least 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: ExportInfo =
        ExportInfo { size_bytes: 1 << 20, block_bytes: 4096, read_only: false, exclusive: false };
    const FULL: NegotiatedExport = NegotiatedExport {
        framing: Framing::Structured,
        contexts: Contexts { allocation: true, changes: 0 },
    };
    const EXTENDED: NegotiatedExport = NegotiatedExport { framing: Framing::Extended, ..FULL };

    fn header(command: u16, flags: u16, offset: u64, len: u32) -> RequestHeader {
        RequestHeader { flags, command, cookie: 7, offset, len: u64::from(len) }
    }

    fn check(command: u16, flags: u16, offset: u64, len: u32) -> Result<CheckedCommand, Errno> {
        admit(&header(command, flags, offset, len), INFO, FULL)
    }

    #[test]
    fn ranges_beyond_the_end_fail_as_the_protocol_says() {
        for offset in [1 << 20, u64::MAX, (1 << 20) - 511] {
            assert_eq!(check(cmd::READ, 0, offset, 512), Err(Errno::Inval));
            assert_eq!(check(cmd::TRIM, 0, offset, 512), Err(Errno::Inval));
            assert_eq!(check(cmd::CACHE, 0, offset, 512), Err(Errno::Inval));
            assert_eq!(check(cmd::BLOCK_STATUS, 0, offset, 512), Err(Errno::Inval));
            assert_eq!(check(cmd::WRITE, 0, offset, 512), Err(Errno::NoSpc));
            assert_eq!(check(cmd::WRITE_ZEROES, 0, offset, 512), Err(Errno::NoSpc));
        }
        assert!(check(cmd::READ, 0, (1 << 20) - 512, 512).is_ok());
    }

    #[test]
    fn fua_is_welcome_everywhere_and_other_flags_where_they_belong() {
        for command in cmd::READ..=cmd::BLOCK_STATUS {
            assert!(check(command, flag::FUA, 0, 512).is_ok(), "command {command}");
        }
        let places = [
            (flag::NO_HOLE, cmd::WRITE_ZEROES),
            (flag::FAST_ZERO, cmd::WRITE_ZEROES),
            (flag::DF, cmd::READ),
            (flag::REQ_ONE, cmd::BLOCK_STATUS),
        ];
        for (bit, place) in places {
            for command in (cmd::READ..=cmd::BLOCK_STATUS).filter(|c| *c != cmd::DISC) {
                assert_eq!(
                    check(command, bit, 0, 512).is_ok(),
                    command == place,
                    "{bit} {command}"
                );
            }
        }
        assert_eq!(check(cmd::WRITE, 1 << 15, 0, 512), Err(Errno::Inval));
    }

    #[test]
    fn chunked_features_need_their_negotiation() {
        let simple = NegotiatedExport::default();
        assert_eq!(admit(&header(cmd::READ, flag::DF, 0, 512), INFO, simple), Err(Errno::Inval));
        assert_eq!(admit(&header(cmd::BLOCK_STATUS, 0, 0, 512), INFO, simple), Err(Errno::Inval));
    }

    #[test]
    fn read_only_exports_refuse_changes() {
        let info = ExportInfo { read_only: true, ..INFO };
        for command in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
            assert_eq!(admit(&header(command, 0, 0, 512), info, FULL), Err(Errno::Perm));
        }
        assert!(admit(&header(cmd::FLUSH, 0, 0, 0), info, FULL).is_ok());
    }

    #[test]
    fn oversized_and_unknown_requests_are_errors() {
        let info = ExportInfo { size_bytes: 1 << 40, ..INFO };
        let over = REQUEST_BYTES_MAX + 1;
        assert_eq!(admit(&header(cmd::READ, 0, 0, over), info, FULL), Err(Errno::Overflow));
        assert_eq!(
            admit(&header(cmd::READ, 0, 0, over), info, NegotiatedExport::default()),
            Err(Errno::Inval)
        );
        assert_eq!(admit(&header(cmd::WRITE, 0, 0, over), info, FULL), Err(Errno::Inval));
        assert!(admit(&header(cmd::TRIM, 0, 0, u32::MAX), info, FULL).is_ok());
        assert_eq!(check(8, 0, 0, 0), Err(Errno::Inval));
    }

    #[test]
    fn requests_count_by_what_they_may_hold() {
        let contexts = Contexts { allocation: true, changes: 2 };
        let status = |len, one_extent| {
            CheckedCommand::BlockStatus { offset: 0, len, one_extent, contexts }.payload_bytes()
        };
        assert_eq!(status(1 << 40, false), 3 * EXTENTS_MAX * EXTENT_BYTES);
        assert_eq!(status(u64::MAX, false), 3 * EXTENTS_MAX * EXTENT_BYTES);
        assert_eq!(status(4096, false), 3 * 10 * EXTENT_BYTES);
        assert_eq!(status(1 << 40, true), 3 * EXTENT_BYTES);
        let cache = |len| CheckedCommand::Cache { offset: 0, len }.payload_bytes();
        assert_eq!(cache(4096), 4096);
        assert_eq!(cache(1 << 40), to_usize(CACHE_PIECE_BYTES));
        assert_eq!(CheckedCommand::Trim { offset: 0, len: 1 << 40 }.payload_bytes(), 0);
    }

    #[test]
    fn a_flush_with_a_range_is_a_flush() {
        assert_eq!(check(cmd::FLUSH, 0, 1 << 19, 4096), Ok(CheckedCommand::Flush));
    }

    #[test]
    fn extended_writes_announce_their_payload_and_nothing_else_has_one() {
        let check = |command, flags| admit(&header(command, flags, 0, 512), INFO, EXTENDED);
        assert_eq!(check(cmd::WRITE, 0), Err(Errno::Inval));
        assert_eq!(
            check(cmd::WRITE, flag::PAYLOAD_LEN | flag::FUA),
            Ok(CheckedCommand::Write { offset: 0, len: 512 })
        );
        for command in
            (cmd::READ..=cmd::BLOCK_STATUS).filter(|c| ![cmd::WRITE, cmd::DISC].contains(c))
        {
            assert!(check(command, 0).is_ok(), "command {command}");
            assert_eq!(check(command, flag::PAYLOAD_LEN), Err(Errno::Inval), "command {command}");
        }
        let compact = header(cmd::WRITE, flag::PAYLOAD_LEN, 0, 512);
        assert_eq!(admit(&compact, INFO, FULL), Err(Errno::Inval));
    }

    #[test]
    fn extended_requests_cover_what_a_compact_one_cannot() {
        let info = ExportInfo { size_bytes: 1 << 56, ..INFO };
        let check = |command, flags, offset, len| {
            let header = RequestHeader { flags, command, cookie: 7, offset, len };
            admit(&header, info, EXTENDED)
        };
        let (offset, len) = (4096, (1 << 56) - 4096);
        assert_eq!(check(cmd::TRIM, 0, offset, len), Ok(CheckedCommand::Trim { offset, len }));
        assert_eq!(check(cmd::CACHE, 0, offset, len), Ok(CheckedCommand::Cache { offset, len }));
        assert!(check(cmd::WRITE_ZEROES, flag::FAST_ZERO, offset, len).is_ok());
        assert!(check(cmd::BLOCK_STATUS, flag::REQ_ONE, offset, len).is_ok());
        assert_eq!(check(cmd::READ, 0, offset, len), Err(Errno::Overflow));
        // A length whose low 32 bits would be a fine one.
        assert_eq!(check(cmd::READ, 0, offset, (1 << 32) + 512), Err(Errno::Overflow));
        assert_eq!(
            check(cmd::WRITE, flag::PAYLOAD_LEN, offset, (1 << 32) + 512),
            Err(Errno::Inval)
        );
        for len in [len + 1, u64::MAX - 4095, u64::MAX] {
            assert_eq!(check(cmd::READ, 0, offset, len), Err(Errno::Inval));
            assert_eq!(check(cmd::TRIM, 0, offset, len), Err(Errno::Inval));
            assert_eq!(check(cmd::CACHE, 0, offset, len), Err(Errno::Inval));
            assert_eq!(check(cmd::BLOCK_STATUS, 0, offset, len), Err(Errno::Inval));
            assert_eq!(check(cmd::WRITE_ZEROES, 0, offset, len), Err(Errno::NoSpc));
        }
    }
}
