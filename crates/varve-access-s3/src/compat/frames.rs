//! The library keeps each chunk of a body (`aws-chunked`) in memory until it is whole, and takes what is not exactly in
//! chunks: such bodies are checked and cut smaller on their way to it, or go past it.
//!
//! BODY-FRAMES-1. A chunk without a signature passes as several of at most [`PIECE_BYTES`]: some clients send 5 GiB as
//!     one.
//! BODY-FRAMES-2. Signed chunks of objects and parts do not go to the library: their bytes are taken out of the frames
//!     here, and pass as they come. Chunks of any length need no memory. Of documents, which must be whole anyway, a
//!     chunk of more than [`SIGNED_BYTES_MAX`] is refused. `chain` checks the signatures of both: the library would
//!     hide which check failed.
//! BODY-FRAMES-3. A line that is not exactly a size, or a size and a signature, is refused: the library would read some
//!     of them in another way.
//! BODY-FRAMES-4. A body that ends anywhere but behind its last line is refused, as are bytes behind that: the library
//!     takes both for an end.
//! BODY-FRAMES-5. The trailers are those that the head of the request announces, each once, and in signed bodies their
//!     signature.
//! BODY-FRAMES-6. Only the last chunk may be shorter than [`SIZE_MIN`], and all together have the length that the head
//!     declares.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::body::{Body, Frame};

use crate::body::refusal::BodyRefusal;
use crate::compat::xml::XML_BYTES_MAX;
use crate::identity::chain::{Chain, Mismatch};

/// Longest chunk without a signature that is passed on, in bytes (BODY-FRAMES-1).
const PIECE_BYTES: u64 = 64 << 10;
/// Longest chunk with a signature of a document, in bytes.
const SIGNED_BYTES_MAX: u64 = XML_BYTES_MAX as u64;
/// Shortest chunk with another one behind it, in bytes, as by Amazon.
const SIZE_MIN: u64 = 8 << 10;
/// Longest line before a chunk, in bytes; the library allows less.
const LINE_BYTES_MAX: usize = 4096;
/// Length of a signature in hexadecimal.
const SIGNATURE_LEN: usize = 64;
const END_OF_LINE: &[u8] = b"\r\n";
const TRAILER_SIGNATURE: &str = "x-amz-trailer-signature";

/// Whether a body is in chunks of the protocol's own.
pub(crate) fn is_in_chunks(headers: &HeaderMap) -> bool {
    has_value(headers, "x-amz-content-sha256", "streaming-")
}

/// Whether a header has a value that contains `text`, in whatever case.
pub(crate) fn has_value(headers: &HeaderMap, name: &str, text: &str) -> bool {
    let mut values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.to_ascii_lowercase().contains(text))
}

/// What the head of a request says of the chunks.
#[derive(Debug)]
pub(crate) struct ChunkedHead {
    /// Length of all chunks together, in bytes.
    len: u64,
    /// Chunks have signatures, and so have trailers.
    signed: bool,
    /// Names of the trailers in small letters; none where there are no trailers at all.
    trailers: Option<Vec<String>>,
}

impl ChunkedHead {
    /// Whether chunks have signatures.
    pub(crate) fn is_signed(&self) -> bool {
        self.signed
    }

    /// What a head may say, for fuzzing.
    pub(crate) fn for_fuzzing(len: u64, signed: bool, trailers: Option<Vec<String>>) -> Self {
        Self { len, signed, trailers }
    }

    /// By the headers of a request in chunks; none if they do not tell the length.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let mode = text("x-amz-content-sha256").unwrap_or_default().to_ascii_uppercase();
        let names = text("x-amz-trailer").unwrap_or_default().split(',');
        let names = names.map(|name| name.trim().to_ascii_lowercase());
        let names = names.filter(|name| !name.is_empty());
        Some(Self {
            len: text("x-amz-decoded-content-length")?.parse().ok()?,
            signed: !mode.contains("UNSIGNED"),
            trailers: mode.ends_with("-TRAILER").then(|| names.collect()),
        })
    }
}

/// What comes next.
enum State {
    /// The line before a chunk, as far as it is here.
    Line(BytesMut),
    /// Bytes of a chunk that will pass as it came.
    Whole { left: u64 },
    /// Bytes of a chunk that passes in pieces: left of the piece, and of the chunk behind it.
    Pieces { left: u64, behind: u64 },
    /// The end of line behind a chunk, as far as it is not here.
    EndOfChunk { left: &'static [u8] },
    /// A line behind the last chunk, as far as it is here.
    Trailer(BytesMut),
    /// Nothing but one more end of line, which some clients send.
    End { left: &'static [u8] },
}

impl From<Mismatch> for BodyRefusal {
    fn from(Mismatch: Mismatch) -> Self {
        Self::ChunkSignature
    }
}

/// Trailers of a body, once it has ended.
pub(crate) type Trailers = Arc<Mutex<Vec<(String, String)>>>;

/// What checks signatures. BODY-FRAMES-2.
struct Verifier {
    chain: Chain,
    trailers: Vec<(String, String)>,
    /// Where they are told; held for moments.
    told: Trailers,
}

/// Reads chunk by chunk, and cuts.
struct Cutter {
    announced: ChunkedHead,
    state: State,
    /// Length of all chunks so far, and of the last one, in bytes.
    len: u64,
    last: Option<u64>,
    /// Whether there has been a trailer, and whether they have been signed.
    any: bool,
    signed: bool,
    /// None where there are no signatures, or none that could be good.
    verifier: Option<Verifier>,
    /// The library takes bytes out of their frames.
    keeps_frames: bool,
}

impl Cutter {
    fn new(announced: ChunkedHead) -> Self {
        let state = State::Line(BytesMut::new());
        Self {
            announced,
            state,
            len: 0,
            last: None,
            any: false,
            signed: false,
            verifier: None,
            keeps_frames: true,
        }
    }

    /// Checks signatures, and tells trailers that are good.
    fn verify(&mut self, chain: Chain) -> Trailers {
        let told = Trailers::default();
        self.verifier = Some(Verifier { chain, trailers: Vec::new(), told: Arc::clone(&told) });
        told
    }

    /// Appends to `out` what becomes of `data`.
    fn push(&mut self, mut data: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), BodyRefusal> {
        while !data.is_empty() {
            match &mut self.state {
                State::Line(line) => {
                    if let Some(line) = whole_line(&mut data, line)? {
                        self.begin(line, out)?;
                    }
                }
                State::Whole { left } => {
                    let piece = take(&mut data, left);
                    if let Some(verifier) = &mut self.verifier {
                        verifier.chain.update(&piece);
                        if *left == 0 {
                            verifier.chain.end()?;
                        }
                    }
                    out.push_back(piece);
                    if *left == 0 {
                        self.state = State::EndOfChunk { left: END_OF_LINE };
                    }
                }
                State::Pieces { left, behind } => {
                    out.push_back(take(&mut data, left));
                    if *left == 0 && *behind == 0 {
                        self.state = State::EndOfChunk { left: END_OF_LINE };
                    } else if *left == 0 {
                        *left = (*behind).min(PIECE_BYTES);
                        *behind -= *left;
                        out.push_back(format!("\r\n{left:x}\r\n").into());
                    }
                }
                State::EndOfChunk { left } => {
                    let end = take_end(&mut data, left)?;
                    if self.keeps_frames {
                        out.push_back(end);
                    }
                    if left.is_empty() {
                        self.state = State::Line(BytesMut::new());
                    }
                }
                State::Trailer(line) => {
                    if let Some(line) = whole_line(&mut data, line)? {
                        self.state = self.trailer(&line)?; // BODY-FRAMES-5
                        if self.keeps_frames {
                            out.push_back(line);
                        }
                    }
                }
                State::End { left } => {
                    let end = take_end(&mut data, left)?; // BODY-FRAMES-4
                    if self.keeps_frames {
                        out.push_back(end);
                    }
                }
            }
        }
        Ok(())
    }

    /// The body has ended. BODY-FRAMES-4.
    fn finish(&self) -> Result<(), BodyRefusal> {
        match self.state {
            State::End { left } if left.is_empty() || left == END_OF_LINE => Ok(()),
            _ => Err(BodyRefusal::Cut),
        }
    }

    /// A line is whole: `SIZE` or `SIZE;chunk-signature=...`, in hexadecimal.
    fn begin(&mut self, line: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), BodyRefusal> {
        let (size, signature) = size_of(&line).ok_or(BodyRefusal::ChunkFormat)?; // BODY-FRAMES-3
        let signed = signature.is_some();
        if signed != self.announced.signed {
            return Err(BodyRefusal::ChunkFormat);
        }
        // BODY-FRAMES-6
        self.len = self.len.saturating_add(size);
        if size > 0 && self.last.replace(size).is_some_and(|last| last < SIZE_MIN) {
            return Err(BodyRefusal::ChunkTooSmall);
        }
        if size == 0 && self.len != self.announced.len {
            return Err(BodyRefusal::Length);
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.chain.begin(signature.unwrap_or_default());
            if size == 0 {
                verifier.chain.end()?;
            }
        }
        if !self.keeps_frames {
            self.state = match size {
                0 => State::Trailer(BytesMut::new()),
                _ => State::Whole { left: size },
            };
            // More than was announced would only be found at the end.
            return if self.len > self.announced.len { Err(BodyRefusal::Length) } else { Ok(()) };
        }
        let (state, passed) = match signed {
            _ if size == 0 => (State::Trailer(BytesMut::new()), line),
            true if size > SIGNED_BYTES_MAX => return Err(BodyRefusal::ChunkTooLarge),
            false if size > PIECE_BYTES => {
                let state = State::Pieces { left: PIECE_BYTES, behind: size - PIECE_BYTES };
                (state, format!("{PIECE_BYTES:x}\r\n").into())
            }
            _ => (State::Whole { left: size }, line),
        };
        self.state = state;
        out.push_back(passed);
        Ok(())
    }

    /// A line behind the last chunk; what comes next. Trailers may be followed by an empty line before their signature.
    /// BODY-FRAMES-5.
    fn trailer(&mut self, line: &[u8]) -> Result<State, BodyRefusal> {
        let next = Ok(State::Trailer(BytesMut::new()));
        let text = std::str::from_utf8(line).map_err(|_| BodyRefusal::ChunkFormat)?;
        let text = text.strip_suffix('\n').ok_or(BodyRefusal::ChunkFormat)?;
        let text = text.strip_suffix('\r').unwrap_or(text);
        let Some(trailers) = &mut self.announced.trailers else {
            return if text.is_empty() {
                Ok(State::End { left: END_OF_LINE })
            } else {
                Err(BodyRefusal::ChunkFormat)
            };
        };
        if text.is_empty() {
            let all = trailers.is_empty();
            return match (all, self.announced.signed, self.signed) {
                (true, true, false) => next,
                (true, ..) => Ok(State::End { left: END_OF_LINE }),
                (false, ..) => Err(BodyRefusal::Trailers),
            };
        }
        let (name, value) = text.split_once(':').ok_or(BodyRefusal::ChunkFormat)?;
        if value.contains('\r') || self.signed {
            return Err(BodyRefusal::ChunkFormat);
        }
        let name = name.to_ascii_lowercase();
        if self.announced.signed && name == TRAILER_SIGNATURE {
            self.signed = is_signature(value);
            if let Some(verifier) = self.verifier.as_mut().filter(|_| self.signed) {
                verifier.chain.trailers(&verifier.trailers, value)?;
                let mut told = verifier.told.lock().unwrap_or_else(PoisonError::into_inner);
                *told = std::mem::take(&mut verifier.trailers);
            }
            return if self.signed { next } else { Err(BodyRefusal::ChunkFormat) };
        }
        // Where all are here, the line should have been the signature.
        let other = if self.any && self.announced.signed && trailers.is_empty() {
            BodyRefusal::ChunkFormat
        } else {
            BodyRefusal::Trailers
        };
        trailers.swap_remove(trailers.iter().position(|known| *known == name).ok_or(other)?);
        if let Some(verifier) = &mut self.verifier {
            verifier.trailers.push((name, value.trim_ascii().to_owned()));
        }
        self.any = true;
        next
    }
}

/// Size in a line, and the signature if there is one.
fn size_of(line: &[u8]) -> Option<(u64, Option<&str>)> {
    let text = std::str::from_utf8(line).ok()?.strip_suffix("\r\n")?;
    let (size, extension) = text.split_once(';').map_or((text, None), |(a, b)| (a, Some(b)));
    // Of more digits the library reads the first eight.
    let is_padded = size.len() > 8 && size.starts_with('0');
    if is_padded || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let signature = match extension {
        Some(extension) => {
            Some(extension.strip_prefix("chunk-signature=").filter(|text| is_signature(text))?)
        }
        None => None,
    };
    Some((u64::from_str_radix(size, 16).ok()?, signature))
}

fn is_signature(text: &str) -> bool {
    text.len() == SIGNATURE_LEN && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Moves what belongs to a line; the line when it is whole.
fn whole_line(data: &mut Bytes, line: &mut BytesMut) -> Result<Option<Bytes>, BodyRefusal> {
    let end = data.iter().position(|byte| *byte == b'\n');
    line.extend_from_slice(&data.split_to(end.map_or(data.len(), |end| end + 1)));
    if line.len() > LINE_BYTES_MAX {
        return Err(BodyRefusal::ChunkFormat);
    }
    Ok(end.map(|_| std::mem::take(line).freeze()))
}

/// Moves what belongs to an end of line of which `left` is not here yet.
fn take_end(data: &mut Bytes, left: &mut &'static [u8]) -> Result<Bytes, BodyRefusal> {
    let (now, later) = left.split_at(data.len().min(left.len()));
    if now.is_empty() || !data.starts_with(now) {
        return Err(BodyRefusal::ChunkFormat);
    }
    *left = later;
    Ok(data.split_to(now.len()))
}

fn take(data: &mut Bytes, left: &mut u64) -> Bytes {
    let now = usize::try_from(*left).unwrap_or(usize::MAX).min(data.len());
    *left -= now as u64;
    data.split_to(now)
}

/// What comes out of a body in pieces of `step` bytes: the bytes that pass, and the trailers.
type Passed = (Vec<u8>, Vec<(String, String)>);

/// Cuts a whole body, for fuzzing.
pub(crate) fn cut(
    announced: ChunkedHead,
    chain: Option<Chain>,
    input: &[u8],
    step: usize,
) -> Result<Passed, BodyRefusal> {
    let mut cutter = Cutter::new(announced);
    cutter.keeps_frames = chain.is_none();
    let told = chain.map(|chain| cutter.verify(chain)).unwrap_or_default();
    let mut out = VecDeque::new();
    for piece in input.chunks(step.max(1)) {
        cutter.push(Bytes::copy_from_slice(piece), &mut out)?;
    }
    cutter.finish()?;
    let told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((out.into_iter().flatten().collect(), told))
}

/// A body in chunks that are short enough for the library, or without its frames.
pub(crate) struct ReframedBody<B> {
    body: B,
    cutter: Cutter,
    ready: VecDeque<Bytes>,
}

impl<B> ReframedBody<B> {
    /// For the library, with signatures that have been checked where there is a chain of them.
    pub(crate) fn framed(body: B, announced: ChunkedHead, chain: Option<Chain>) -> Self {
        let mut cutter = Cutter::new(announced);
        if let Some(chain) = chain {
            cutter.verify(chain);
        }
        Self { body, cutter, ready: VecDeque::new() }
    }

    /// Takes bytes out of their frames, with trailers told once they are known to be good. BODY-FRAMES-2.
    pub(crate) fn decoded(body: B, announced: ChunkedHead, chain: Chain) -> (Self, Trailers) {
        let mut cutter = Cutter::new(announced);
        cutter.keeps_frames = false;
        let told = cutter.verify(chain);
        (Self { body, cutter, ready: VecDeque::new() }, told)
    }
}

impl<B> Body for ReframedBody<B>
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
                None => {
                    this.cutter.finish()?;
                    return Poll::Ready(None);
                }
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

    const SUM: &str = "x-amz-checksum-crc32";
    const SIGNATURE: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn announced(mode: &str, len: usize, trailer: &str) -> ChunkedHead {
        let headers = [
            ("x-amz-content-sha256", mode.to_owned()),
            ("x-amz-decoded-content-length", len.to_string()),
            ("x-amz-trailer", trailer.to_owned()),
        ];
        let headers = headers.iter().map(|(name, value)| {
            (hyper::header::HeaderName::from_static(name), value.parse().unwrap())
        });
        ChunkedHead::of(&headers.collect()).unwrap()
    }

    fn unsigned(len: usize, trailer: &str) -> ChunkedHead {
        announced("STREAMING-UNSIGNED-PAYLOAD-TRAILER", len, trailer)
    }

    fn signed(len: usize) -> ChunkedHead {
        announced("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", len, "")
    }

    /// What comes out when `input` comes in pieces of `step` bytes.
    fn cut(announced: ChunkedHead, input: &[u8], step: usize) -> Result<Vec<u8>, BodyRefusal> {
        let mut cutter = Cutter::new(announced);
        let mut out = VecDeque::new();
        for piece in input.chunks(step.max(1)) {
            cutter.push(Bytes::copy_from_slice(piece), &mut out)?;
        }
        cutter.finish()?;
        Ok(out.into_iter().flatten().collect())
    }

    /// The name of the refusal, however the input is cut.
    fn refused(announced: impl Fn() -> ChunkedHead, input: &str) -> String {
        let mut names = [1, 2, 7, input.len()].into_iter().map(|step| {
            let refused = cut(announced(), input.as_bytes(), step).err();
            refused.map(|refused| format!("{refused:?}"))
        });
        let first = names.next().unwrap();
        assert!(names.all(|name| name == first), "{input}");
        first.unwrap_or_default()
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
            let found = cut(unsigned(body.len() + 5, SUM), &input, step).unwrap();
            assert_eq!(found, expected, "in pieces of {step}");
        }
    }

    #[test]
    fn signed_chunks_pass_as_they_are() {
        let chunk = |size: &str| format!("{size};chunk-signature={SIGNATURE}\r\n").into_bytes();
        let trailer = |end: &str| {
            format!("{SUM}:AAAAAA=={end}x-amz-trailer-signature:{SIGNATURE}\r\n\r\n").into_bytes()
        };
        let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
        // minio-go ends trailers in its own way.
        for end in ["\r\n", "\n\r\n"] {
            let parts =
                [chunk("20000"), vec![7; 0x20000], b"\r\n".to_vec(), chunk("0"), trailer(end)];
            let body = parts.concat();
            for step in [1, 13, body.len()] {
                assert_eq!(cut(announced(mode, 0x20000, SUM), &body, step).unwrap(), body);
            }
        }
    }

    /// BODY-FRAMES-2. What comes out when a client sends `chunks` with a trailer, spoiled somehow, in pieces; and the
    /// trailers.
    fn decoded(
        chunks: &[&[u8]],
        spoil: impl Fn(&mut Vec<u8>),
    ) -> Result<(Vec<u8>, usize), BodyRefusal> {
        let (mut client, mut body) = (Chain::of_test(), Vec::new());
        for chunk in chunks.iter().chain([&&[][..]]) {
            let signature = client.sign(chunk);
            body.extend(format!("{:x};chunk-signature={signature}\r\n", chunk.len()).into_bytes());
            body.extend(*chunk);
            if !chunk.is_empty() {
                body.extend(b"\r\n");
            }
        }
        let signature = client.sign_trailers(&format!("{SUM}:AAAAAA==\n"));
        let trailers = format!("{SUM}:AAAAAA==\r\n{TRAILER_SIGNATURE}:{signature}\r\n\r\n");
        body.extend(trailers.into_bytes());
        spoil(&mut body);
        let len = chunks.iter().map(|chunk| chunk.len()).sum();
        let mut results = [1, 7, 4096, body.len()].into_iter().map(|step| {
            let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
            let mut cutter = Cutter::new(announced(mode, len, SUM));
            cutter.keeps_frames = false;
            let told = cutter.verify(Chain::of_test());
            let mut out = VecDeque::new();
            for piece in body.chunks(step.max(1)) {
                cutter.push(Bytes::copy_from_slice(piece), &mut out)?;
            }
            cutter.finish()?;
            let told = told.lock().unwrap().len();
            Ok((out.into_iter().flatten().collect::<Vec<u8>>(), told))
        });
        let first = results.next().unwrap();
        for other in results {
            let names = |one: &Result<_, BodyRefusal>| one.as_ref().err().copied();
            assert_eq!(names(&other), names(&first), "however it is cut");
        }
        first
    }

    #[test]
    fn signed_chunks_are_verified_as_they_come() {
        let (long, short) = (vec![7; 100_000], vec![8; 500]);
        let whole = [&long[..], &short[..]].concat();
        assert_eq!(decoded(&[&long, &short], |_| {}).unwrap(), (whole, 1));
        assert_eq!(decoded(&[], |_| {}).unwrap(), (Vec::new(), 1));
        let flipped = |at: usize| move |body: &mut Vec<u8>| body[at] ^= 1;
        let refused = |spoil: &dyn Fn(&mut Vec<u8>)| {
            decoded(&[&long, &short], spoil)
                .err()
                .map(|refused| format!("{refused:?}"))
                .unwrap_or_default()
        };
        assert!(refused(&flipped(50_000)) == "ChunkSignature", "a byte of a chunk");
        assert!(refused(&|body| body.truncate(60_000)) == "Cut", "cut");
        assert!(refused(&|body| body.truncate(body.len() - 2)) == "Cut", "cut");
        let in_trailer = |body: &mut Vec<u8>| {
            let at = body.len() - 96;
            let sum = body[..at].iter().rposition(|byte| *byte == b'A').unwrap();
            body[sum] = b'B';
        };
        assert!(refused(&in_trailer) == "ChunkSignature", "a trailer");
        let mut client = Chain::of_test();
        let signature = client.sign(&long);
        let unchained = |body: &mut Vec<u8>| {
            // The second chunk as if it were the first.
            let text = Chain::of_test().sign(&short);
            let at = signature.len() + long.len() + 20;
            let from =
                at + body[at..].windows(10).position(|part| part == b"signature=").unwrap() + 10;
            body[from..from + SIGNATURE_LEN].copy_from_slice(text.as_bytes());
        };
        assert!(refused(&unchained) == "ChunkSignature", "out of order");
    }

    /// BODY-FRAMES-2.
    #[test]
    fn signed_chunks_of_documents_are_verified_within_their_frames() {
        let signature = Chain::of_test().sign(b"hello");
        let mut client = Chain::of_test();
        let (_, last) = (client.sign(b"hello"), client.sign(b""));
        let body = |text: &str| {
            format!("5;chunk-signature={signature}\r\n{text}\r\n0;chunk-signature={last}\r\n\r\n")
        };
        let passed = |text: &str| {
            let mut cutter = Cutter::new(signed(5));
            cutter.verify(Chain::of_test());
            let mut out = VecDeque::new();
            cutter.push(body(text).into(), &mut out)?;
            cutter.finish()?;
            Ok::<_, BodyRefusal>(out.into_iter().flatten().collect::<Vec<u8>>())
        };
        assert_eq!(passed("hello"), Ok(body("hello").into_bytes()));
        assert_eq!(passed("hellO"), Err(BodyRefusal::ChunkSignature));
    }

    /// BODY-FRAMES-3.
    #[test]
    fn lines_that_could_be_read_in_two_ways_are_refused() {
        let long = "1".repeat(3 * LINE_BYTES_MAX);
        for line in [
            "no size\r\n",
            "ffffffffx\r\n",
            "+5\r\n",
            "5\n",
            "5 \r\n",
            "fffffffffffffffff\r\n",
            "0000010000\r\n",
            "5;other=1\r\n",
            "5;chunk-signature=ab\r\n",
            "5:chunk-signature=ab\r\n",
            &long,
        ] {
            assert_eq!(refused(|| unsigned(5, ""), line), "ChunkFormat", "{line}");
            assert_eq!(refused(|| signed(5), line), "ChunkFormat", "{line}");
        }
        assert_eq!(refused(|| signed(5), "5\r\nhello\r\n"), "ChunkFormat");
        let line = format!("5;chunk-signature={SIGNATURE}\r\n");
        assert_eq!(refused(|| unsigned(5, ""), &line), "ChunkFormat");
    }

    /// BODY-FRAMES-4.
    #[test]
    fn bodies_without_their_end_are_refused() {
        let whole = format!("5\r\nhello\r\n0\r\n{SUM}:AAAAAA==\r\n\r\n");
        assert_eq!(refused(|| unsigned(5, SUM), &whole), "");
        for len in 0..whole.len() {
            assert_eq!(refused(|| unsigned(5, SUM), &whole[..len]), "Cut", "{len}");
        }
        for behind in ["x", "\r\nx", "\r\n\r\n", "0\r\n"] {
            assert_eq!(refused(|| unsigned(5, SUM), &format!("{whole}{behind}")), "ChunkFormat");
        }
        assert_eq!(refused(|| unsigned(5, SUM), &format!("{whole}\r\n")), ""); // As minio-go has it.
        for body in ["5\r\nhelloxx0\r\n\r\n", "5\r\nhello0\r\n\r\n", "6\r\nhello\r\n0\r\n\r\n"] {
            assert_eq!(refused(|| unsigned(5, ""), body), "ChunkFormat", "{body}");
        }
    }

    /// BODY-FRAMES-5.
    #[test]
    fn trailers_are_those_announced() {
        let body = |trailers: &str| format!("5\r\nhello\r\n0\r\n{trailers}\r\n");
        let sum = format!("{SUM}:AAAAAA==\r\n");
        for (trailer, trailers, wanted) in [
            ("", String::new(), ""),
            (SUM, sum.to_ascii_uppercase(), ""),
            (SUM, String::new(), "Trailers"),
            ("", sum.clone(), "Trailers"),
            (SUM, ":AAAAAA==\r\n".to_owned(), "Trailers"),
            (SUM, "other:AAAAAA==\r\n".to_owned(), "Trailers"),
            (SUM, format!("{sum}{sum}"), "Trailers"),
            (SUM, "no colon\r\n".to_owned(), "ChunkFormat"),
            (SUM, format!("{SUM}:AA\rAA\r\n"), "ChunkFormat"),
        ] {
            let found = refused(|| unsigned(5, trailer), &body(&trailers));
            assert_eq!(found, wanted, "{trailer}: {trailers}");
        }
        let mode = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER";
        let chunk = |size: &str| format!("{size};chunk-signature={SIGNATURE}\r\n");
        let body = |rest: &str| format!("{}hello\r\n{}{rest}", chunk("5"), chunk("0"));
        let by = |name: &str, text: &str| format!("{name}:{text}\r\n");
        for (rest, wanted) in [
            (by(SUM, "AAAAAA==") + &by(TRAILER_SIGNATURE, SIGNATURE) + "\r\n", ""),
            (by(SUM, "AAAAAA==") + "\r\n", "Cut"),
            (by(SUM, "AAAAAA==") + &by("other", SIGNATURE) + "\r\n", "ChunkFormat"),
            (by(SUM, "AAAAAA==") + &by(TRAILER_SIGNATURE, "ab") + "\r\n", "ChunkFormat"),
            (by(TRAILER_SIGNATURE, SIGNATURE) + "\r\n", "Trailers"),
            ("\r\n".to_owned(), "Trailers"),
        ] {
            assert_eq!(refused(|| announced(mode, 5, SUM), &body(&rest)), wanted, "{rest}");
        }
        let rest = by(SUM, "AAAAAA==") + &by(TRAILER_SIGNATURE, SIGNATURE) + "\r\n";
        assert_eq!(refused(|| announced(mode, 5, ""), &body(&rest)), "Trailers");
        assert_eq!(refused(|| signed(5), &body(&rest)), "ChunkFormat");
        assert_eq!(refused(|| signed(5), &body("\r\n")), "");
    }

    /// BODY-FRAMES-6.
    #[test]
    fn lengths_are_those_declared() {
        let chunk = |size: usize| format!("{size:x}\r\n{}\r\n", "a".repeat(size));
        let body = |sizes: &[usize]| sizes.iter().map(|size| chunk(*size)).collect::<String>();
        for (sizes, wanted) in [
            (&[8192, 8192, 100][..], ""),
            (&[100], ""),
            (&[], ""),
            (&[100, 8192], "ChunkTooSmall"),
            (&[8192, 8191, 1], "ChunkTooSmall"),
        ] {
            let len = sizes.iter().sum();
            let body = body(sizes) + "0\r\n\r\n";
            assert_eq!(refused(|| unsigned(len, ""), &body), wanted, "{sizes:?}");
        }
        for len in [4, 6] {
            let found = refused(|| unsigned(len, ""), "5\r\nhello\r\n0\r\n\r\n");
            assert_eq!(found, "Length");
        }
    }

    /// BODY-FRAMES-2.
    #[test]
    fn a_signed_chunk_of_a_document_that_would_fill_memory_is_refused() {
        let line = |size: &str| format!("{size};chunk-signature={SIGNATURE}\r\n");
        assert_eq!(refused(|| signed(0), &line("400001")), "ChunkTooLarge");
        assert_eq!(refused(|| signed(0), &line("400000")), "Cut"); // It ends there.
    }
}
