//! The client's handshake: fixed newstyle, `GO`, simple replies. It blocks, and gives up after a while.

use std::io::{self, Read, Write};

use varve_access_nbd::wire::constant::{
    FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, IHAVEOPT, NBDMAGIC, REPLY_MAGIC, info, opt, rep,
};

/// Longest reply to an option that is looked at, in bytes.
const REPLY_BYTES_MAX: u32 = 64 << 10;

/// Replies to an option at most.
const REPLIES_MAX: u32 = 1000;

/// An export as its server describes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ServedExport {
    pub(super) size_bytes: u64,
    /// Transmission flags.
    pub(super) flags: u16,
}

/// Asks for `export`; the reason in words when there is none.
pub(super) fn shake_hands<S: Read + Write>(
    stream: S,
    export: &str,
) -> Result<ServedExport, String> {
    NbdHandshake { stream }.run(export)
}

struct NbdHandshake<S> {
    stream: S,
}

impl<S: Read + Write> NbdHandshake<S> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map_err(to_text)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_be_bytes)
    }

    fn run(&mut self, export: &str) -> Result<ServedExport, String> {
        if (self.u64()?, self.u64()?) != (NBDMAGIC, IHAVEOPT) {
            return Err("it does not greet as an NBD server of today does".to_owned());
        }
        let flags = u16::from_be_bytes(self.take()?);
        if flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err("it knows no options".to_owned());
        }
        let answer = u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        let name_bytes = u32::try_from(export.len()).map_err(|_| "the name is too long")?;
        let data_bytes = name_bytes.checked_add(6).ok_or("the name is too long")?;
        let go = [
            &answer.to_be_bytes()[..],
            &IHAVEOPT.to_be_bytes(),
            &opt::GO.to_be_bytes(),
            &data_bytes.to_be_bytes(),
            &name_bytes.to_be_bytes(),
            export.as_bytes(),
            &0u16.to_be_bytes(),
        ]
        .concat();
        self.stream.write_all(&go).map_err(to_text)?;
        self.replies()
    }

    fn replies(&mut self) -> Result<ServedExport, String> {
        let mut found = None;
        for _ in 0..REPLIES_MAX {
            if (self.u64()?, self.u32()?) != (REPLY_MAGIC, opt::GO) {
                return Err("it answers something else than was asked".to_owned());
            }
            let (kind, len) = (self.u32()?, self.u32()?);
            if len > REPLY_BYTES_MAX {
                return Err(format!("a reply of {len} bytes is too long"));
            }
            let mut data = vec![0; usize::try_from(len).map_err(|_| "a reply is too long")?];
            self.stream.read_exact(&mut data).map_err(to_text)?;
            match kind {
                rep::ACK => {
                    return found.ok_or_else(|| "it does not tell the export's size".to_owned());
                }
                rep::INFO => found = described(&data).or(found),
                rep::ERR_UNKNOWN => return Err("it has no such export".to_owned()),
                rep::ERR_TLS_REQD => return Err("it wants TLS, which is not spoken".to_owned()),
                _ => {
                    let said = String::from_utf8_lossy(&data).into_owned();
                    return Err(format!("it refuses with {kind:#x}: {said:?}"));
                }
            }
        }
        Err("its replies do not end".to_owned())
    }
}

fn described(data: &[u8]) -> Option<ServedExport> {
    let (kind, rest) = data.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    let flags = rest.first_chunk()?;
    (u16::from_be_bytes(*kind) == info::EXPORT).then_some(ServedExport {
        size_bytes: u64::from_be_bytes(*size),
        flags: u16::from_be_bytes(*flags),
    })
}

fn to_text(error: io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    struct Peer {
        says: Cursor<Vec<u8>>,
    }

    impl Read for Peer {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.says.read(buf)
        }
    }

    impl Write for Peer {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn greeting() -> Vec<u8> {
        [&NBDMAGIC.to_be_bytes()[..], &IHAVEOPT.to_be_bytes(), &3u16.to_be_bytes()].concat()
    }

    fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
        let len = u32::try_from(data.len()).unwrap();
        let numbers = [opt::GO, kind, len].map(u32::to_be_bytes).concat();
        [&REPLY_MAGIC.to_be_bytes()[..], &numbers, data].concat()
    }

    fn export() -> Vec<u8> {
        [&info::EXPORT.to_be_bytes()[..], &(1u64 << 30).to_be_bytes(), &13u16.to_be_bytes()]
            .concat()
    }

    fn shake(says: Vec<u8>) -> Result<ServedExport, String> {
        shake_hands(Peer { says: Cursor::new(says) }, "v")
    }

    #[test]
    fn a_server_that_agrees_tells_size_and_flags() {
        let says = [greeting(), reply(rep::INFO, &export()), reply(rep::ACK, &[])].concat();
        assert_eq!(shake(says.clone()), Ok(ServedExport { size_bytes: 1 << 30, flags: 13 }));
        for cut in 0..says.len() {
            assert!(shake(says[..cut].to_vec()).is_err(), "cut at {cut}");
        }
        for bit in 0..says.len() * 8 {
            let mut flipped = says.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let _neither_panics_nor_hangs = shake(flipped);
        }
    }

    #[test]
    fn refusals_are_told_in_words() {
        let refused =
            |kind, data: &[u8]| shake([greeting(), reply(kind, data)].concat()).unwrap_err();
        assert_eq!(refused(rep::ERR_UNKNOWN, b""), "it has no such export");
        assert!(refused(rep::ERR_POLICY, b"not you").contains("not you"));
        assert!(refused(rep::ACK, b"").contains("size"));
    }
}
