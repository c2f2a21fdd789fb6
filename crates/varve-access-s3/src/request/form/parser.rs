//! Reads `multipart/form-data`: fields with their bounds, then the file as a stream; what comes after it is ignored.

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, stream};
use http_body_util::StreamBody;
use hyper::Request;
use hyper::body::Frame;
use hyper::header::CONTENT_TYPE;
use s3s::dto::StreamingBlob;
use s3s::{Body, S3Result, s3_error};

use super::Fields;
use crate::body::refusal::BodyRefusal;

/// Most bytes of all fields, with their heads.
pub(crate) const FIELDS_BYTES_MAX: usize = 256 << 10;
/// Most fields.
const FIELDS_MAX: usize = 200;
/// Most bytes that are read and dropped behind the file.
const TAIL_BYTES_MAX: usize = 64 << 10;

/// A form whose file has not been read.
pub(crate) struct FormFields {
    pub(crate) fields: Fields,
    /// Name of the file, without the directories that some browsers tell.
    pub(crate) filename: String,
    source: FormSource,
}

/// What has been read and not taken, and the rest.
struct FormSource {
    body: Body,
    buffer: BytesMut,
    /// A line end, two hyphens, the boundary: ends every part.
    delimiter: Vec<u8>,
}

/// The file on its way.
struct File {
    source: FormSource,
    taken: u64,
    range: Option<(u64, u64)>,
    ended: bool,
}

impl FormSource {
    /// Reads on. False at the end.
    async fn more(&mut self) -> Result<bool, BodyRefusal> {
        match self.body.next().await {
            None => Ok(false),
            Some(Ok(data)) => {
                self.buffer.extend_from_slice(&data);
                Ok(true)
            }
            Some(Err(error)) => Err(BodyRefusal::find(&*error).unwrap_or(BodyRefusal::Interrupted)),
        }
    }

    /// Takes what stands before `mark`, and the mark, as long as that is at most `limit` bytes.
    async fn until(&mut self, mark: &[u8], limit: usize) -> S3Result<BytesMut> {
        let mut looked = 0;
        loop {
            if let Some(at) = find(self.buffer.get(looked..).unwrap_or_default(), mark) {
                let mut taken = self.buffer.split_to(looked + at + mark.len());
                taken.truncate(looked + at);
                if taken.len() > limit {
                    return Err(too_large());
                }
                return Ok(taken);
            }
            looked = self.buffer.len().saturating_sub(mark.len());
            if self.buffer.len() > limit {
                return Err(too_large());
            }
            if !self.more().await.map_err(|_| malformed())? {
                return Err(malformed());
            }
        }
    }
}

fn too_large() -> s3s::S3Error {
    s3_error!(
        MaxPostPreDataLengthExceededError,
        "Your POST request fields preceding the upload file were too large."
    )
}

fn malformed() -> s3s::S3Error {
    s3_error!(
        MalformedPOSTRequest,
        "The body of your POST request is not well-formed multipart/form-data."
    )
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

impl FormFields {
    /// Reads up to the file.
    pub(crate) async fn read(request: Request<Body>) -> S3Result<Self> {
        let content_type = request
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let boundary = parameter(content_type, "boundary")
            .filter(|boundary| (1..=70).contains(&boundary.len()))
            .ok_or_else(malformed)?;
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        // The first delimiter lacks its line end.
        let mut source = FormSource {
            body: request.into_body(),
            buffer: BytesMut::from(&b"\r\n"[..]),
            delimiter,
        };
        let delimiter = source.delimiter.clone();
        source.until(&delimiter, FIELDS_BYTES_MAX).await?;
        let (mut fields, mut left) = (Fields::default(), FIELDS_BYTES_MAX);
        loop {
            let head = source.until(b"\r\n\r\n", left).await?;
            left = left.saturating_sub(head.len());
            let part = Head::parse(&head)?;
            if part.name == "file" {
                let filename = part.filename.unwrap_or_default();
                let filename = filename.rsplit(['/', '\\']).next().unwrap_or_default().to_owned();
                return Ok(Self { fields, filename, source });
            }
            let value = source.until(&delimiter, left).await?;
            left = left.saturating_sub(value.len());
            let value = String::from_utf8(value.to_vec()).map_err(|_| malformed())?;
            if fields.get(&part.name).is_some() {
                // What is checked would not be what is used.
                return Err(s3_error!(InvalidArgument, "The field {} comes twice.", part.name));
            }
            fields.all.push((part.name, value));
            if fields.all.len() > FIELDS_MAX {
                return Err(s3_error!(
                    MaxPostPreDataLengthExceededError,
                    "Your POST request has too many fields."
                ));
            }
        }
    }

    /// The file, whose length in bytes must lie in `range`.
    pub(crate) fn into_file(self, range: Option<(u64, u64)>) -> StreamingBlob {
        let file = File { source: self.source, taken: 0, range, ended: false };
        let frames = stream::try_unfold(file, |file| async move {
            let next = file.next().await?;
            Ok::<_, BodyRefusal>(next.map(|(data, file)| (Frame::data(data), file)))
        });
        StreamingBlob::from(Body::http_body_unsync(StreamBody::new(frames)))
    }
}

impl File {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, BodyRefusal> {
        if self.ended {
            return Ok(None);
        }
        loop {
            let source = &mut self.source;
            let end = find(&source.buffer, &source.delimiter);
            let ready =
                end.unwrap_or_else(|| source.buffer.len().saturating_sub(source.delimiter.len()));
            if ready > 0 || end.is_some() {
                let data = source.buffer.split_to(ready).freeze();
                self.taken += data.len() as u64;
                if self.range.is_some_and(|(_, most)| self.taken > most) {
                    return Err(BodyRefusal::FileTooLong);
                }
                if end.is_some() {
                    self.ended = true;
                    self.drop_tail().await?;
                    if self.range.is_some_and(|(least, _)| self.taken < least) {
                        return Err(BodyRefusal::FileTooShort);
                    }
                }
                return Ok(Some((data, self)));
            }
            if !source.more().await? {
                return Err(BodyRefusal::Cut);
            }
        }
    }

    /// Reads what a polite client still sends, so that it gets to read the answer.
    async fn drop_tail(&mut self) -> Result<(), BodyRefusal> {
        let mut dropped = 0;
        while dropped < TAIL_BYTES_MAX && self.source.more().await? {
            dropped += self.source.buffer.len();
            self.source.buffer.clear();
        }
        Ok(())
    }
}

/// What stands before a part.
struct Head {
    name: String,
    filename: Option<String>,
}

impl Head {
    fn parse(bytes: &[u8]) -> S3Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
        // Behind the boundary its line ends; hyphens there end the form.
        let is_part = text.split("\r\n").next().is_some_and(|rest| rest.trim_ascii().is_empty());
        if !is_part {
            return Err(malformed());
        }
        let disposition = text.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
        });
        let disposition = disposition.ok_or_else(malformed)?;
        let name = parameter(disposition, "name").ok_or_else(malformed)?.to_ascii_lowercase();
        Ok(Self { name, filename: parameter(disposition, "filename") })
    }
}

/// A parameter of a header, quoted or not.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(';') {
        rest = after.trim_start();
        let (found, value) = rest.split_once('=')?;
        let value = value.trim_start();
        let (value, after) = match value.strip_prefix('"') {
            // Blanks in quotes belong to it.
            Some(quoted) => quoted.split_once('"')?,
            None => {
                let (value, after) = value.split_at(value.find(';').unwrap_or(value.len()));
                (value.trim(), after)
            }
        };
        if found.trim().eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pieces: &[&str]) -> Request<Body> {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| {
                Ok::<_, BodyRefusal>(Frame::data(Bytes::copy_from_slice(piece.as_bytes())))
            })
            .collect();
        let body = Body::http_body_unsync(StreamBody::new(stream::iter(pieces)));
        Request::builder()
            .header(CONTENT_TYPE, "multipart/form-data; boundary=\"xyz\"")
            .body(body)
            .unwrap()
    }

    async fn file(form: FormFields, range: Option<(u64, u64)>) -> Result<String, BodyRefusal> {
        let mut blob = form.into_file(range);
        let mut all = Vec::new();
        while let Some(data) = blob.next().await {
            all.extend_from_slice(&data.map_err(|error| BodyRefusal::find(&*error).unwrap())?);
        }
        Ok(String::from_utf8(all).unwrap())
    }

    const TEXT: &str = "--xyz\r\nContent-Disposition: form-data; name=\"Key\"\r\n\r\na-${filename}\r\n--xyz\r\n\
                        content-disposition: form-data; name=file; filename=\"c:\\dir\\f.txt\"\r\nContent-Type: text/plain\r\n\r\n\
                        some\r\n--xy bytes\r\n--xyz\r\nContent-Disposition: form-data; name=\"late\"\r\n\r\nv\r\n--xyz--\r\n";

    #[tokio::test]
    async fn a_form_cut_anywhere_reads_the_same() {
        for at in 0..TEXT.len() {
            let form = FormFields::read(request(&[&TEXT[..at], &TEXT[at..]])).await.unwrap();
            assert_eq!(form.fields.get("key"), Some("a-${filename}"));
            assert_eq!(form.filename, "f.txt");
            assert_eq!(
                file(form, Some((1, 100))).await.unwrap(),
                "some\r\n--xy bytes",
                "cut at {at}"
            );
        }
    }

    #[test]
    fn blanks_in_quotes_are_part_of_a_parameter() {
        let value = |text: &str| parameter(text, "filename");
        assert_eq!(value("form-data; filename=\" a/ b \""), Some(" a/ b ".to_owned()));
        assert_eq!(value("form-data; filename =  a b ; x=y"), Some("a b".to_owned()));
    }

    #[tokio::test]
    async fn forms_that_end_early_are_refused() {
        let whole = TEXT.find("bytes\r\n--xyz").unwrap() + "bytes\r\n--xyz".len();
        for len in 0..whole {
            match FormFields::read(request(&[&TEXT[..len]])).await {
                Err(_) => {}
                Ok(form) => assert_eq!(file(form, None).await, Err(BodyRefusal::Cut), "{len}"),
            }
        }
    }

    #[tokio::test]
    async fn a_form_has_no_parts_behind_its_end() {
        let late = TEXT.replacen("\r\n--xyz\r\ncontent", "\r\n--xyz--\r\ncontent", 1);
        let Err(error) = FormFields::read(request(&[&late])).await else {
            panic!("a file behind the end")
        };
        assert_eq!(error.code().as_str(), "MalformedPOSTRequest");
        let padded = TEXT.replacen("--xyz\r\n", "--xyz \t\r\n", 1);
        assert!(FormFields::read(request(&[&padded])).await.is_ok());
    }

    #[tokio::test]
    async fn bounds_hold() {
        let form = || async { FormFields::read(request(&[TEXT])).await.unwrap() };
        assert_eq!(file(form().await, Some((0, 5))).await, Err(BodyRefusal::FileTooLong));
        assert_eq!(file(form().await, Some((50, 90))).await, Err(BodyRefusal::FileTooShort));
        let long = TEXT.replace("a-$", &"a".repeat(FIELDS_BYTES_MAX));
        let Err(error) = FormFields::read(request(&[&long])).await else {
            panic!("fields without bound")
        };
        assert_eq!(error.code().as_str(), "MaxPostPreDataLengthExceededError");
    }
}
