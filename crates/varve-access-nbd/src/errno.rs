//! Error numbers of replies, and the one table from [`ErrorKind`] to them.

use varve_types::ErrorKind;

/// The error numbers that the protocol knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Errno {
    /// Not permitted: a write to a read-only export.
    Perm = 1,
    /// Input/output error.
    Io = 5,
    /// Out of memory. Never sent: requests wait instead.
    NoMem = 12,
    /// Invalid argument: out of range, unknown command or flag.
    Inval = 22,
    /// No space, or a write beyond the end.
    NoSpc = 28,
    /// The request is too large to be served in one piece.
    Overflow = 75,
    /// A fast zero is not possible here.
    NotSup = 95,
    /// The server is shutting down, or another server took over; clients disconnect.
    Shutdown = 108,
}

impl Errno {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Text of error replies, for people.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Self::Perm => "export is read-only or access is denied",
            Self::Io => "input/output error",
            Self::NoMem => "out of memory",
            Self::Inval => "invalid request",
            Self::NoSpc => "no space, or beyond the end of the export",
            Self::Overflow => "request is larger than the maximum payload",
            Self::NotSup => "not supported",
            Self::Shutdown => "server is shutting down",
        }
    }
}

impl From<ErrorKind> for Errno {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Invalid | ErrorKind::Exists => Self::Inval,
            ErrorKind::Unsupported => Self::NotSup,
            ErrorKind::Denied => Self::Perm,
            ErrorKind::NoSpace => Self::NoSpc,
            // Both end this client's session for good, and ESHUTDOWN is what makes it look for another server.
            ErrorKind::Fenced | ErrorKind::Closed => Self::Shutdown,
            // The protocol has no word for "try again" or "deleted meanwhile".
            ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Unavailable
            | ErrorKind::Corrupt
            | ErrorKind::Internal => Self::Io,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_protocol() {
        let numbers = [
            (ErrorKind::Denied, 1),
            (ErrorKind::Corrupt, 5),
            (ErrorKind::Invalid, 22),
            (ErrorKind::NoSpace, 28),
            (ErrorKind::Unsupported, 95),
            (ErrorKind::Fenced, 108),
        ];
        for (kind, number) in numbers {
            assert_eq!(Errno::from(kind).number(), number, "{kind}");
        }
    }
}
