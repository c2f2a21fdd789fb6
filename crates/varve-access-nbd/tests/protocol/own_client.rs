//! Goal: the client of `varve-nbd` finds what it wrote, in either form of replies, and tells what the server refuses.
//! Method: it copies data and zeros to a real server, more requests than are under way at a time, and reads all back.

use varve_access_nbd::ServiceOptions;
use varve_nbd::{AttachRequest, Error, NbdAddress, NbdConnection};

use crate::server::Server;

const SIZE: u64 = 8 << 20;
const PIECE: u32 = 96 << 10;

/// Data, of which two pieces of three are zeros.
fn contents() -> Vec<u8> {
    let piece = usize::try_from(PIECE).unwrap();
    let mut contents = vec![0; usize::try_from(SIZE).unwrap()];
    for (number, piece) in contents.chunks_mut(piece).enumerate().step_by(3) {
        piece.fill(u8::try_from(number % 255).unwrap() + 1);
    }
    contents
}

fn read_all(nbd: &mut NbdConnection) -> Vec<u8> {
    let mut found = vec![0xff; usize::try_from(SIZE).unwrap()];
    let mut keep = |read: varve_nbd::FoundData| {
        let start = usize::try_from(read.offset).unwrap();
        found[start..start + read.data.len()].copy_from_slice(&read.data);
    };
    let mut at = 0;
    while at < SIZE {
        if !nbd.has_room() {
            keep(nbd.next_answer().unwrap().unwrap());
        }
        let len = u32::try_from((SIZE - at).min(u64::from(PIECE))).unwrap();
        nbd.send_read(at, len).unwrap();
        at += u64::from(len);
    }
    while let Some(read) = nbd.next_answer().unwrap() {
        keep(read);
    }
    found
}

#[test]
fn it_finds_what_it_wrote() {
    let server = Server::start(SIZE, 1, &ServiceOptions::default());
    let unix = NbdAddress::Unix(server.socket());
    let tcp = NbdAddress::Tcp(format!("127.0.0.1:{}", server.port));
    let contents = contents();
    for (address, structured_replies) in [(&unix, true), (&tcp, false)] {
        let request = AttachRequest { export: "disk", structured_replies };
        let mut nbd = NbdConnection::connect(address, &request).unwrap();
        assert_eq!(nbd.size_bytes(), SIZE);
        nbd.send_zeroes(0, SIZE).unwrap();
        nbd.drain().unwrap();
        for (number, piece) in contents.chunks(usize::try_from(PIECE).unwrap()).enumerate() {
            while !nbd.has_room() {
                nbd.next_answer().unwrap();
            }
            if piece[0] != 0 {
                nbd.send_write(u64::from(PIECE) * number as u64, piece).unwrap();
            }
        }
        nbd.drain().unwrap();
        assert!(read_all(&mut nbd) == contents);
        nbd.end().unwrap();
    }
}

#[test]
fn refusals_are_told() {
    let server = Server::start(SIZE, 1, &ServiceOptions::default());
    let unix = NbdAddress::Unix(server.socket());
    for structured_replies in [true, false] {
        let other = AttachRequest { export: "other", structured_replies };
        let refused = NbdConnection::connect(&unix, &other).err().unwrap();
        assert!(matches!(refused, Error::NoExport));
        let request = AttachRequest { export: "disk", structured_replies };
        let mut nbd = NbdConnection::connect(&unix, &request).unwrap();
        nbd.send_read(SIZE - 512, 1024).unwrap();
        let refused = nbd.next_answer().unwrap_err();
        assert!(matches!(refused, Error::Request { offset, .. } if offset == SIZE - 512));
    }
    let nowhere = NbdAddress::Unix(server.dir.path().join("nowhere"));
    let request = AttachRequest { export: "disk", structured_replies: false };
    assert!(matches!(NbdConnection::connect(&nowhere, &request), Err(Error::Connect(_))));
}
