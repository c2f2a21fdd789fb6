//! The least of an NBD client that can write to a volume and read it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A connection to one volume.
pub(crate) struct Client {
    stream: UnixStream,
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
        stream.read_exact(&mut [0; 10]).unwrap();
        Self { stream }
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
