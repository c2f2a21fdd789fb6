//! One connection of HTTP/1.1 that is kept open, with one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bodies up to this travel in one system call with their head.
const JOINED_BYTES_MAX: usize = 256 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest line of a head, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// A connection, with what was received ahead.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    joined: Vec<u8>,
}

/// Begin of an answer; the body stands in the connection.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) length: usize,
}

impl Connection {
    /// Connects to `host:port`.
    pub(crate) fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        Ok(Self { stream: BufReader::with_capacity(64 << 10, stream), joined: Vec::new() })
    }

    /// Sends a request and reads the head of its answer.
    pub(crate) fn request(&mut self, head: &str, body: &[u8]) -> io::Result<Answer> {
        self.joined.clear();
        self.joined.extend_from_slice(head.as_bytes());
        let joined = body.len() <= JOINED_BYTES_MAX;
        if joined {
            self.joined.extend_from_slice(body);
        }
        let stream = self.stream.get_mut();
        stream.write_all(&self.joined)?;
        if !joined {
            stream.write_all(body)?;
        }
        self.answer()
    }

    /// Reads the next `into.len()` bytes of an answer's body.
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(into)
    }

    fn answer(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| invalid(format!("no HTTP answer: {line:?}")))?;
        let mut length = (status == 204).then_some(0);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().ok();
            }
        }
        if status == 100 {
            return self.answer();
        }
        let length = length.ok_or_else(|| invalid(format!("{status} without a length")))?;
        Ok(Answer { status, length })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(LINE_BYTES_MAX).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(whole) => Ok(whole.to_owned()),
            None => Err(invalid(format!("head of an answer cut off: {line:?}"))),
        }
    }
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}
