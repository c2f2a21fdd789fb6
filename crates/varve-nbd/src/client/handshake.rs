//! The client's handshake: fixed newstyle, structured replies where they are asked for, and `GO`. It blocks as long as
//! its stream does.

use std::io::{Read, Write};

use crate::constant::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, REPLY_MAGIC, info, opt, rep,
};
use crate::error::{Error, Result};
use crate::framing::Framing;

/// Longest reply to an option that is looked at, in bytes.
const REPLY_BYTES_MAX: u32 = 64 << 10;

/// Replies to an option at most.
const REPLIES_MAX: u32 = 1000;

/// What a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttachRequest<'a> {
    /// Name of the export; empty: the default one.
    pub export: &'a str,
    /// Whether reads are to be answered in chunks, which tell holes. A server that does not know them is refused.
    pub structured_replies: bool,
}

impl AttachRequest<'_> {
    /// Form of requests and replies behind the handshake.
    #[must_use]
    pub fn framing(&self) -> Framing {
        if self.structured_replies { Framing::Structured } else { Framing::Simple }
    }
}

/// An export as its server describes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ServedExport {
    /// Its size.
    pub size_bytes: u64,
    /// Transmission flags.
    pub flags: u16,
}

/// Asks for an export; requests may follow on the stream.
///
/// # Errors
/// All but `Connect` and `Request`.
pub fn shake_hands<S: Read + Write>(
    stream: &mut S,
    request: &AttachRequest<'_>,
) -> Result<ServedExport> {
    NbdHandshake { stream }.run(request)
}

struct NbdHandshake<'a, S> {
    stream: &'a mut S,
}

impl<S: Read + Write> NbdHandshake<'_, S> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map_err(Error::Stream)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn run(&mut self, request: &AttachRequest<'_>) -> Result<ServedExport> {
        let name_bytes = u32::try_from(request.export.len()).map_err(|_| Error::NameTooLong)?;
        if (self.u64()?, self.u64()?) != (NBDMAGIC, IHAVEOPT) {
            return Err(Error::Protocol("it does not greet as an NBD server of today does"));
        }
        let flags = u16::from_be_bytes(self.take()?);
        if flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err(Error::Protocol("it knows no options"));
        }
        let answer = u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        self.stream.write_all(&answer.to_be_bytes()).map_err(Error::Stream)?;
        if request.structured_replies {
            self.option(opt::STRUCTURED_REPLY, &[])?;
        }
        let name = [&name_bytes.to_be_bytes(), request.export.as_bytes()].concat();
        let found = self.option(opt::GO, &[&name[..], &0u16.to_be_bytes()].concat())?;
        found.ok_or(Error::Protocol("it does not tell the export's size"))
    }

    /// Sends an option and reads replies until it is acknowledged; the export, if they describe one.
    fn option(&mut self, option: u32, data: &[u8]) -> Result<Option<ServedExport>> {
        let len = u32::try_from(data.len()).map_err(|_| Error::NameTooLong)?;
        let numbers = [option, len].map(u32::to_be_bytes).concat();
        let bytes = [&IHAVEOPT.to_be_bytes()[..], &numbers, data].concat();
        self.stream.write_all(&bytes).map_err(Error::Stream)?;
        let mut found = None;
        for _ in 0..REPLIES_MAX {
            if (self.u64()?, self.u32()?) != (REPLY_MAGIC, option) {
                return Err(Error::Protocol("it answers something else than was asked"));
            }
            let (kind, len) = (self.u32()?, self.u32()?);
            if len > REPLY_BYTES_MAX {
                return Err(Error::Protocol("a reply to an option is too long"));
            }
            let mut data = vec![0; usize::try_from(len).expect("at most 64 KiB")];
            self.stream.read_exact(&mut data).map_err(Error::Stream)?;
            match kind {
                rep::ACK => return Ok(found),
                rep::INFO => found = describe(&data).or(found),
                rep::ERR_UNKNOWN => return Err(Error::NoExport),
                rep::ERR_TLS_REQD => return Err(Error::TlsRequired),
                kind => {
                    let message = String::from_utf8_lossy(&data).into_owned();
                    return Err(Error::OptionRefused { kind, message });
                }
            }
        }
        Err(Error::Protocol("its replies do not end"))
    }
}

fn describe(data: &[u8]) -> Option<ServedExport> {
    let (kind, rest) = data.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    let flags = rest.first_chunk()?;
    (u16::from_be_bytes(*kind) == info::EXPORT).then_some(ServedExport {
        size_bytes: u64::from_be_bytes(*size),
        flags: u16::from_be_bytes(*flags),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{self, Cursor};

    use super::*;

    struct Peer {
        says: Cursor<Vec<u8>>,
        hears: Vec<u8>,
    }

    impl Read for Peer {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.says.read(buf)
        }
    }

    impl Write for Peer {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.hears.extend(buf);
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn greeting() -> Vec<u8> {
        [&NBDMAGIC.to_be_bytes()[..], &IHAVEOPT.to_be_bytes(), &3u16.to_be_bytes()].concat()
    }

    fn reply_to(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
        let len = u32::try_from(data.len()).unwrap();
        let numbers = [option, kind, len].map(u32::to_be_bytes).concat();
        [&REPLY_MAGIC.to_be_bytes()[..], &numbers, data].concat()
    }

    fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
        reply_to(opt::GO, kind, data)
    }

    fn export() -> Vec<u8> {
        [&info::EXPORT.to_be_bytes()[..], &(1u64 << 30).to_be_bytes(), &13u16.to_be_bytes()]
            .concat()
    }

    /// What comes of a server that says so, and what it hears.
    fn shake(says: Vec<u8>, structured_replies: bool) -> (Result<ServedExport>, Vec<u8>) {
        let mut peer = Peer { says: Cursor::new(says), hears: Vec::new() };
        let found = shake_hands(&mut peer, &AttachRequest { export: "v", structured_replies });
        (found, peer.hears)
    }

    #[test]
    fn a_server_that_agrees_tells_size_and_flags() {
        let go = [reply(rep::INFO, &export()), reply(rep::ACK, &[])].concat();
        let structured = reply_to(opt::STRUCTURED_REPLY, rep::ACK, &[]);
        for structured_replies in [false, true] {
            let structured = if structured_replies { &structured[..] } else { &[] };
            let says = [&greeting()[..], structured, &go].concat();
            let (found, hears) = shake(says.clone(), structured_replies);
            assert_eq!(found.unwrap(), ServedExport { size_bytes: 1 << 30, flags: 13 });
            let asks =
                b"\0\0\0\x03IHAVEOPT\0\0\0\x08\0\0\0\0IHAVEOPT\0\0\0\x07\0\0\0\x07\0\0\0\x01v\0\0";
            let skip = if structured_replies { 0 } else { 16 };
            assert_eq!(hears, [&asks[..4], &asks[4 + skip..]].concat());
            for cut in 0..says.len() {
                let (found, _) = shake(says[..cut].to_vec(), structured_replies);
                assert!(matches!(found, Err(Error::Stream(_))), "cut at {cut}");
            }
            for bit in 0..says.len() * 8 {
                let mut flipped = says.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let _neither_panics_nor_hangs = shake(flipped, structured_replies);
            }
        }
    }

    #[test]
    fn refusals_are_told_in_words() {
        let refused = |kind, data: &[u8]| {
            let (found, _) = shake([greeting(), reply(kind, data)].concat(), false);
            found.unwrap_err().to_string()
        };
        assert_eq!(refused(rep::ERR_UNKNOWN, b""), "it has no such export");
        assert!(refused(rep::ERR_POLICY, b"not you").contains("not you"));
        assert!(refused(rep::ERR_TLS_REQD, b"").contains("TLS"));
        assert!(refused(rep::ACK, b"").contains("size"));
        let unknown = reply_to(opt::STRUCTURED_REPLY, rep::ERR_UNSUP, b"what?");
        let (found, _) = shake([greeting(), unknown].concat(), true);
        assert!(matches!(found, Err(Error::OptionRefused { .. })));
    }
}
