//! What a client of NBD takes from a server that says anything: handshake, replies, chunks.
#![no_main]

use std::io::{self, Read, Write};

use libfuzzer_sys::fuzz_target;
use varve_nbd::{AttachRequest, NbdConnection};

/// What a server says, whatever it hears.
struct Server<'a>(&'a [u8]);

impl Read for Server<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl Write for Server<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a server says that has a disk of 1 MiB.
const SERVED: &[u8] = b"NBDMAGICIHAVEOPT\0\x03\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x03\0\0\0\x0c\0\0\0\0\0\0\0\x10\0\0\0\x0d\
    \0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x07\0\0\0\x01\0\0\0\0";
/// The same, with structured replies.
const CHUNKS: &[u8] = b"\0\x03\xe8\x89\x04\x55\x65\xa9\0\0\0\x08\0\0\0\x01\0\0\0\0";

fuzz_target!(|bytes: &[u8]| {
    let (greeting, go) = SERVED.split_at(18);
    for structured_replies in [false, true] {
        let request = AttachRequest { export: "d", structured_replies };
        let _any_server = NbdConnection::attach(Server(bytes), &request);
        let chunks = if structured_replies { CHUNKS } else { &[] };
        let says = [greeting, chunks, go, bytes].concat();
        let mut nbd = NbdConnection::attach(Server(&says), &request).expect("it serves the disk");
        nbd.send_read(4096, 64).expect("it hears all");
        nbd.send_write(0, b"data").expect("it hears all");
        nbd.send_read(0, 16).expect("it hears all");
        for len in [64, 0, 16] {
            match nbd.next_answer() {
                Ok(found) => assert_eq!(found.expect("three are under way").data.len(), len),
                Err(_) => break,
            }
        }
    }
});
