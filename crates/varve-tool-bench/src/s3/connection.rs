//! One connection of HTTP/1.1 that is kept open, with one request at a time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Bodies up to this travel in one system call with their head.
const JOINED_BYTES_MAX: usize = 256 << 10;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Longest line of a head, in bytes.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// Bytes of a body that are read at once.
const PIECE_BYTES: u64 = 64 << 10;

/// A connection, with what was received ahead.
#[derive(Debug)]
pub struct S3Connection {
    stream: BufReader<TcpStream>,
    joined: Vec<u8>,
    etag: String,
    /// Whether no other request can follow: a body was not sent to its end, or the server said that it closes.
    is_spent: bool,
}

/// Begin of an answer; the body stands in the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// Status of HTTP.
    pub status: u16,
    /// Bytes of the body; none of one that comes in chunks.
    pub length: Option<u64>,
}

impl S3Connection {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// When nobody answers there.
    pub fn open(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let stream = BufReader::with_capacity(64 << 10, stream);
        Ok(Self { stream, joined: Vec::new(), etag: String::new(), is_spent: false })
    }

    /// Sends a request and reads the head of its answer.
    ///
    /// # Errors
    /// When the connection breaks, no byte comes for 60 s, or what comes is no answer.
    pub fn request(&mut self, head: &str, body: &[u8]) -> io::Result<ResponseHead> {
        self.joined.clear();
        self.joined.extend_from_slice(head.as_bytes());
        let joined = body.len() <= JOINED_BYTES_MAX;
        if joined {
            self.joined.extend_from_slice(body);
        }
        let stream = self.stream.get_mut();
        let mut sent = stream.write_all(&self.joined);
        if !joined {
            sent = sent.and_then(|()| stream.write_all(body));
        }
        self.answer_to(sent)
    }

    /// The same with a body of `length` bytes that `next` makes piece by piece, in `piece`.
    ///
    /// # Errors
    /// As `request`.
    pub fn request_in_pieces(
        &mut self,
        head: &str,
        length: u64,
        piece: &mut [u8],
        mut next: impl FnMut(u64, &mut [u8]),
    ) -> io::Result<ResponseHead> {
        self.joined.clear();
        self.joined.extend_from_slice(head.as_bytes());
        let mut sent = 0;
        while sent < length {
            let bytes =
                usize::try_from(length - sent).map_or(piece.len(), |left| left.min(piece.len()));
            next(sent, &mut piece[..bytes]);
            self.joined.extend_from_slice(&piece[..bytes]);
            if let Err(error) = self.stream.get_mut().write_all(&self.joined) {
                return self.answer_to(Err(error));
            }
            self.joined.clear();
            sent += bytes as u64;
        }
        let sent = self.stream.get_mut().write_all(&self.joined);
        self.answer_to(sent)
    }

    /// Whether no other request can follow the last one.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// The answer to a request, also to one that could not be sent to its end: a server that refuses it may answer and
    /// close before it has the body.
    fn answer_to(&mut self, sent: io::Result<()>) -> io::Result<ResponseHead> {
        match sent {
            Ok(()) => self.answer(),
            Err(error) => {
                self.is_spent = true;
                self.answer().map_err(|_no_answer| error)
            }
        }
    }

    /// The entity tag of the last answer; empty where it had none.
    #[must_use]
    pub fn etag(&self) -> &str {
        &self.etag
    }

    /// Reads the next `into.len()` bytes of an answer's body.
    ///
    /// # Errors
    /// When the connection breaks, or no byte comes for 60 s.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.stream.read_exact(into)
    }

    /// Reads the body of `answer`, and throws it away; its bytes.
    ///
    /// # Errors
    /// As `read`, and when chunks are none.
    pub fn skip(&mut self, answer: ResponseHead) -> io::Result<u64> {
        self.each(answer, |_| {})
    }

    /// Reads the body of `answer`, and hands it to `take` piece by piece, in order; its bytes.
    ///
    /// # Errors
    /// As `skip`.
    pub fn each(&mut self, answer: ResponseHead, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
        if let Some(length) = answer.length {
            return self.each_of(length, &mut take);
        }
        let mut all = 0;
        loop {
            let line = self.line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)
                .map_err(|_| invalid(format!("no size of a chunk: {line:?}")))?;
            all += self.each_of(size, &mut take)?;
            if size == 0 {
                // Trailers, up to an empty line.
                while !self.line()?.is_empty() {}
                return Ok(all);
            }
            self.line()?;
        }
    }

    fn each_of(&mut self, length: u64, take: &mut impl FnMut(&[u8])) -> io::Result<u64> {
        let mut left = length;
        let mut bytes = Vec::new();
        while left > 0 {
            bytes.clear();
            let read = (&mut self.stream).take(left.min(PIECE_BYTES)).read_to_end(&mut bytes)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            take(&bytes);
            left -= read as u64;
        }
        Ok(length)
    }

    fn answer(&mut self) -> io::Result<ResponseHead> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status: u16 = status.ok_or_else(|| invalid(format!("no HTTP answer: {line:?}")))?;
        let mut length = (status == 204).then_some(0);
        let mut is_chunked = false;
        self.etag.clear();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
            if name.eq_ignore_ascii_case("etag") {
                value.trim().clone_into(&mut self.etag);
            }
            self.is_spent |= name.eq_ignore_ascii_case("connection")
                && value.trim().eq_ignore_ascii_case("close");
            is_chunked |= name.eq_ignore_ascii_case("transfer-encoding")
                && value.trim().eq_ignore_ascii_case("chunked");
        }
        if status == 100 {
            return self.answer();
        }
        if is_chunked {
            return Ok(ResponseHead { status, length: None });
        }
        let length = length.ok_or_else(|| invalid(format!("{status} without a length")))?;
        Ok(ResponseHead { status, length: Some(length) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// What the client makes of a server that says this.
    fn told(answers: &'static str) -> (S3Connection, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            stream.write_all(answers.as_bytes()).unwrap();
            let mut seen = Vec::new();
            stream.read_to_end(&mut seen).unwrap();
            seen
        });
        (S3Connection::open(&address).unwrap(), server)
    }

    #[test]
    fn bodies_with_a_length_and_in_chunks_are_read_to_their_end() {
        let (mut connection, server) = told(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello\
             HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n\
             HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 404 Not Found\r\n\r\n",
        );
        let first = connection.request("a", b"b").unwrap();
        assert_eq!(first, ResponseHead { status: 200, length: Some(5) });
        assert_eq!((connection.skip(first).unwrap(), connection.etag()), (5, "\"x\""));
        let mut piece = [0; 4];
        let second = connection
            .request_in_pieces("c", 6, &mut piece, |at, bytes| {
                bytes.fill(if at == 0 { b'0' } else { b'4' })
            })
            .unwrap();
        assert_eq!((second.length, connection.skip(second).unwrap()), (None, 13));
        assert_eq!(connection.etag(), "", "that of another answer");
        let third = connection.request("d", &[]).unwrap();
        assert_eq!((third.status, connection.skip(third).unwrap()), (204, 0));
        assert!(connection.request("e", &[]).is_err(), "no length");
        drop(connection);
        assert_eq!(server.join().unwrap(), b"abc000044de");
    }

    #[test]
    fn a_refusal_before_the_body_has_arrived_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let mut head = [0; 4];
            stream.read_exact(&mut head).unwrap();
            let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nno";
            stream.write_all(refusal.as_bytes()).unwrap();
            // The rest of the body is never taken; without waiting for it the answer might be lost on its way.
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut rest = [0; 4096];
            let mut taken = 0;
            while taken < 1 << 20 {
                match stream.read(&mut rest) {
                    Ok(0) | Err(_) => break,
                    Ok(bytes) => taken += bytes,
                }
            }
        });
        let mut connection = S3Connection::open(&address).unwrap();
        let mut piece = vec![7; 64 << 10];
        let answer = connection.request_in_pieces("head", 1 << 30, &mut piece, |_, _| {}).unwrap();
        assert_eq!((answer.status, connection.skip(answer).unwrap()), (400, 2));
        assert!(connection.is_spent());
        server.join().unwrap();
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for wrong in ["SMTP ready\r\n", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 x OK\r\n\r\n"] {
            let (mut connection, _server) = told(wrong);
            connection.stream.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
            assert!(connection.request("", &[]).is_err(), "{wrong}");
        }
        let (mut connection, _server) =
            told("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n");
        let answer = connection.request("", &[]).unwrap();
        assert!(connection.skip(answer).is_err());
    }
}
