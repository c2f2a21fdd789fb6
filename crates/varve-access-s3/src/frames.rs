//! Bodies in chunks of the protocol's own (`aws-chunked`), on their way to the protocol library, which keeps each chunk in memory until it
//! is whole.
//!
//! F1. A chunk without a signature passes as several of at most [`PIECE_BYTES`]: some clients send 5 GiB as one.
//! F2. A chunk with a signature must be whole before its bytes may be used; one of more than [`SIGNED_BYTES_MAX`] is refused.
//! F3. A line that is not exactly a size, or a size and a signature, is refused: the library would read some of them in another way.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body, Frame};

/// Longest chunk without a signature that is passed on, in bytes.
const PIECE_BYTES: u64 = 64 << 10;
/// Longest chunk with a signature, in bytes. Clients send 64 KiB to 1 MiB.
const SIGNED_BYTES_MAX: u64 = 16 << 20;
/// Longest line before a chunk, in bytes; the library allows less.
const LINE_BYTES_MAX: usize = 4096;

/// What comes next.
enum State {
    /// The line before a chunk, as far as it is here.
    Line(BytesMut),
    /// Bytes of a chunk that will pass as it came.
    Whole { left: u64 },
    /// Bytes of a chunk that passes in pieces: left of the piece, and of the chunk behind it.
    Pieces { left: u64, behind: u64 },
    /// The end of line behind a chunk.
    EndOfChunk { left: u8 },
    /// All that follows the last chunk.
    Rest,
}

/// Their texts begin with names, as those of the library do.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("ChunkTooLarge: a signed chunk has more than {SIGNED_BYTES_MAX} bytes")]
    ChunkTooLarge,
    #[error("FormatError: a line before a chunk is no size with or without a signature")]
    Format,
}

/// Reads chunk by chunk, and cuts.
struct Cutter {
    state: State,
}

impl Cutter {
    /// Appends to `out` what becomes of `data`.
    fn push(&mut self, mut data: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), Refused> {
        while !data.is_empty() {
            match &mut self.state {
                State::Line(line) => {
                    let end = data.iter().position(|byte| *byte == b'\n');
                    line.extend_from_slice(&data.split_to(end.map_or(data.len(), |end| end + 1)));
                    if line.len() > LINE_BYTES_MAX {
                        return Err(Refused::Format);
                    }
                    if end.is_some() {
                        let line = std::mem::take(line).freeze();
                        self.begin(line, out)?;
                    }
                }
                State::Whole { left } => {
                    take(&mut data, left, out);
                    if *left == 0 {
                        self.state = State::EndOfChunk { left: 2 };
                    }
                }
                State::Pieces { left, behind } => {
                    take(&mut data, left, out);
                    if *left == 0 && *behind == 0 {
                        self.state = State::EndOfChunk { left: 2 };
                    } else if *left == 0 {
                        *left = (*behind).min(PIECE_BYTES);
                        *behind -= *left;
                        out.push_back(format!("\r\n{left:x}\r\n").into());
                    }
                }
                State::EndOfChunk { left } => {
                    let now = data.len().min(usize::from(*left));
                    out.push_back(data.split_to(now));
                    *left -= u8::try_from(now).unwrap_or(*left);
                    if *left == 0 {
                        self.state = State::Line(BytesMut::new());
                    }
                }
                State::Rest => out.push_back(data.split_to(data.len())),
            }
        }
        Ok(())
    }

    /// A line is whole: `SIZE` or `SIZE;chunk-signature=...`, in hexadecimal.
    fn begin(&mut self, line: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), Refused> {
        let (size, signature) = size_of(&line).ok_or(Refused::Format)?; // F3
        let (state, passed) = match signature {
            _ if size == 0 => (State::Rest, line),
            Some(_) if size > SIGNED_BYTES_MAX => return Err(Refused::ChunkTooLarge),
            None if size > PIECE_BYTES => {
                let state = State::Pieces { left: PIECE_BYTES, behind: size - PIECE_BYTES };
                (state, format!("{PIECE_BYTES:x}\r\n").into())
            }
            _ => (State::Whole { left: size }, line),
        };
        self.state = state;
        out.push_back(passed);
        Ok(())
    }
}

/// Size and signature in a line.
fn size_of(line: &[u8]) -> Option<(u64, Option<&str>)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let (size, extension) = text.split_once(';').map_or((text, None), |(a, b)| (a, Some(b)));
    if !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let signature = match extension {
        Some(extension) => Some(extension.strip_prefix("chunk-signature=")?),
        None => None,
    };
    Some((u64::from_str_radix(size, 16).ok()?, signature))
}

fn take(data: &mut Bytes, left: &mut u64, out: &mut VecDeque<Bytes>) {
    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
    out.push_back(data.split_to(now));
    *left -= now as u64;
}

/// A body in chunks that are short enough for the library.
pub(crate) struct Reframed<B> {
    body: B,
    cutter: Cutter,
    ready: VecDeque<Bytes>,
}

impl<B> Reframed<B> {
    pub(crate) fn new(body: B) -> Self {
        let cutter = Cutter { state: State::Line(BytesMut::new()) };
        Self { body, cutter, ready: VecDeque::new() }
    }
}

impl<B> Body for Reframed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            let this = &mut *self;
            match this.ready.pop_front() {
                Some(data) if data.has_remaining() => {
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(_) => continue,
                None => {}
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                // What is left of a line says nothing, and the library drops it, too.
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.cutter.push(data, &mut this.ready)?,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out when `input` comes in pieces of `step` bytes.
    fn cut(input: &[u8], step: usize) -> Result<Vec<u8>, Refused> {
        let mut cutter = Cutter { state: State::Line(BytesMut::new()) };
        let mut out = VecDeque::new();
        for piece in input.chunks(step) {
            cutter.push(Bytes::copy_from_slice(piece), &mut out)?;
        }
        Ok(out.into_iter().flatten().collect())
    }

    #[test]
    fn long_chunks_without_a_signature_are_cut() {
        let body: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
        let mut input = b"249f0\r\n".to_vec();
        input.extend_from_slice(&body);
        input.extend_from_slice(b"\r\n5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        let mut expected = b"10000\r\n".to_vec();
        expected.extend_from_slice(&body[..65536]);
        expected.extend_from_slice(b"\r\n10000\r\n");
        expected.extend_from_slice(&body[65536..131_072]);
        expected.extend_from_slice(b"\r\n49f0\r\n");
        expected.extend_from_slice(&body[131_072..]);
        expected.extend_from_slice(b"\r\n5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n");
        for step in [1, 2, 7, 1000, 65_536, 65_537, input.len()] {
            assert_eq!(cut(&input, step).unwrap(), expected, "in pieces of {step}");
        }
    }

    #[test]
    fn signed_chunks_pass_as_they_are() {
        let signed = [
            b"20000;chunk-signature=ab\r\n".to_vec(),
            vec![7; 0x20000],
            b"\r\n0;chunk-signature=cd\r\nx-amz-trailer-signature:ef\r\n\r\n".to_vec(),
        ];
        let signed = signed.concat();
        for step in [1, 13, signed.len()] {
            assert_eq!(cut(&signed, step).unwrap(), signed);
        }
    }

    #[test]
    fn lines_that_could_be_read_in_two_ways_are_refused() {
        let long = vec![b'1'; 3 * LINE_BYTES_MAX];
        for line in [
            &b"no size\r\n"[..],
            b"ffffffffx\r\n",
            b"+5\r\n",
            b"\r\n",
            b"5\n",
            b"5 \r\n",
            b"fffffffffffffffff\r\n",
            b"5;other=1\r\n",
            &long,
        ] {
            for step in [1, line.len()] {
                assert!(cut(line, step).is_err(), "{}", line.escape_ascii());
            }
        }
    }

    #[test]
    fn a_signed_chunk_that_would_fill_memory_is_refused() {
        assert!(cut(b"1000001;chunk-signature=ab\r\n", 100).is_err());
        assert!(cut(b"1000000;chunk-signature=ab\r\n", 100).is_ok());
    }
}
