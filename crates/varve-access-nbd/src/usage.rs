//! What one client made use of: for log lines, and for the table of clients in `docs/nbd.md`.

use std::fmt;

use varve_nbd::constant::{cmd, flag};
use varve_nbd::{Framing, RequestHeader};

use crate::handshake::NegotiatedExport;
use crate::wire::option;

/// Commands that have a name; others share the last counter.
const COMMANDS: [&str; 9] =
    ["READ", "WRITE", "DISC", "FLUSH", "TRIM", "CACHE", "WRITE_ZEROES", "BLOCK_STATUS", "unknown"];

/// See the module. Displays as one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClientUsage {
    options: u32,
    tls: bool,
    negotiated: NegotiatedExport,
    requests: [u64; COMMANDS.len()],
    flags: u16,
}

impl ClientUsage {
    /// Of a client of whom only that is known.
    #[must_use]
    pub fn of(negotiated: NegotiatedExport) -> Self {
        Self { negotiated, ..Self::default() }
    }

    pub(crate) fn option(&mut self, option: u32) {
        self.options |= 1u32.checked_shl(option).unwrap_or(0);
    }

    pub(crate) fn tls(&mut self) {
        self.tls = true;
    }

    pub(crate) fn negotiated(&mut self, negotiated: NegotiatedExport) {
        self.negotiated = negotiated;
    }

    #[inline]
    pub(crate) fn request(&mut self, header: &RequestHeader) {
        let index = usize::from(header.command.min(cmd::BLOCK_STATUS + 1));
        if let Some(count) = self.requests.get_mut(index) {
            *count += 1;
        }
        self.flags |= header.flags;
    }

    /// Whether the client sent this option.
    #[must_use]
    pub fn used_option(&self, option: u32) -> bool {
        1u32.checked_shl(option).is_some_and(|bit| self.options & bit != 0)
    }

    /// Whether the connection ran over TLS.
    #[must_use]
    pub fn used_tls(&self) -> bool {
        self.tls
    }

    /// What was negotiated.
    #[must_use]
    pub fn agreed(&self) -> NegotiatedExport {
        self.negotiated
    }

    /// Requests of this command, refused ones included.
    #[must_use]
    pub fn requests(&self, command: u16) -> u64 {
        self.requests.get(usize::from(command)).copied().unwrap_or(0)
    }

    /// All command flags that were ever set.
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.flags
    }
}

impl fmt::Display for ClientUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls { "TLS; options" } else { "options" })?;
        for number in (0..u32::BITS).filter(|number| self.used_option(*number)) {
            write!(f, " {}", option::name(number))?;
        }
        f.write_str(match self.negotiated.framing {
            Framing::Simple => "",
            Framing::Structured => "; structured replies",
            Framing::Extended => "; extended headers",
        })?;
        if self.negotiated.contexts.allocation {
            f.write_str("; base:allocation")?;
        }
        if self.negotiated.contexts.changes > 0 {
            write!(f, "; changes since {} snapshots", self.negotiated.contexts.changes)?;
        }
        f.write_str("; requests")?;
        for (name, count) in COMMANDS.iter().zip(self.requests).filter(|(_, count)| *count > 0) {
            write!(f, " {name} {count}")?;
        }
        let flags = [
            (flag::FUA, "FUA"),
            (flag::NO_HOLE, "NO_HOLE"),
            (flag::DF, "DF"),
            (flag::REQ_ONE, "REQ_ONE"),
            (flag::FAST_ZERO, "FAST_ZERO"),
            (flag::PAYLOAD_LEN, "PAYLOAD_LEN"),
        ];
        for (_, name) in flags.iter().filter(|(bit, _)| self.flags & bit != 0) {
            write!(f, " +{name}")?;
        }
        Ok(())
    }
}
