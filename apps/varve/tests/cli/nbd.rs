//! The least of an NBD client that can write to a volume and read it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to one volume.
pub(crate) struct Client {
    stream: UnixStream,
    flags: u16,
}

impl Client {
    /// Opens a volume on a unix socket.
    pub(crate) fn open(socket: &Path, volume: &str) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(&3u32.to_be_bytes()).unwrap(); // Fixed newstyle, no zeros after the reply.
        stream.write_all(b"IHAVEOPT").unwrap();
        stream.write_all(&1u32.to_be_bytes()).unwrap(); // NBD_OPT_EXPORT_NAME
        stream.write_all(&u32::try_from(volume.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(volume.as_bytes()).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let flags = u16::from_be_bytes([export[8], export[9]]);
        Self { stream, flags }
    }

    /// Whether a client may open several connections.
    pub(crate) fn can_multi_conn(&self) -> bool {
        self.flags & (1 << 8) != 0
    }

    /// What the server says to a client that wants a volume, where it refuses.
    pub(crate) fn refusal(socket: &Path, volume: &str) -> String {
        let (_stream, kind, text) = Self::ask(socket, volume, 7); // NBD_OPT_GO
        assert_eq!(kind, 0x8000_0002, "NBD_REP_ERR_POLICY");
        String::from_utf8(text).unwrap()
    }

    /// The connection of a client that only asks about a volume.
    pub(crate) fn look(socket: &Path, volume: &str) -> UnixStream {
        let (stream, kind, _) = Self::ask(socket, volume, 6); // NBD_OPT_INFO
        assert_eq!(kind, 3, "NBD_REP_INFO");
        stream
    }

    fn ask(socket: &Path, volume: &str, option: u32) -> (UnixStream, u32, Vec<u8>) {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        let name_len = u32::try_from(volume.len()).unwrap();
        let mut request = Vec::new();
        request.extend(3u32.to_be_bytes());
        request.extend(b"IHAVEOPT");
        request.extend(option.to_be_bytes());
        request.extend((name_len + 6).to_be_bytes());
        request.extend(name_len.to_be_bytes());
        request.extend(volume.as_bytes());
        request.extend([0; 2]);
        stream.write_all(&request).unwrap();
        let mut reply = [0; 20];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[8..12], option.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        let mut data = vec![0; usize::try_from(word(16)).unwrap()];
        stream.read_exact(&mut data).unwrap();
        (stream, word(12), data)
    }

    fn request(&mut self, command: u16, offset: u64, len: usize, data: &[u8]) -> u32 {
        let mut request = Vec::new();
        request.extend(0x2560_9513u32.to_be_bytes());
        request.extend(0u16.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(7u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(u32::try_from(len).unwrap().to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        u32::from_be_bytes(reply[4..8].try_into().unwrap())
    }

    /// Writes; the error number, 0 when it is durable.
    pub(crate) fn try_write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.request(1, offset, data.len(), data)
    }

    /// Writes; durable on return.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(self.try_write(offset, data), 0, "write at {offset}");
    }

    /// Reads.
    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Vec<u8> {
        assert_eq!(self.request(0, offset, len, &[]), 0, "read at {offset}");
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).unwrap();
        data
    }
}
