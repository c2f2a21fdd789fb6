//! Reading objects: whole, in ranges, by part; and their headers alone.

use std::ops::Range as Span;
use std::sync::Arc;

use futures_util::StreamExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use hyper::header::CONTENT_RANGE;
use s3s::dto::{
    self, GetObjectInput, GetObjectOutput, HeadObjectInput, HeadObjectOutput,
    ObjectLockLegalHoldStatus, ObjectLockMode, Range, StorageClass, StreamingBlob, Timestamp,
    TimestampFormat,
};
use s3s::header::X_AMZ_TAGGING_COUNT;
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use varve_object::{Attributes, BodyReader, FoundVersion};

use super::multipart::part_number;
use super::{
    Answer, ConditionFailure, ReadConditions, RequestOrigin, etag, found, signed, version_id,
};
use crate::answers::error::with_elements;
use crate::body::cipher::{self, BodyKey};
use crate::body::sums::{self, show};
use crate::bucket::lifecycle::expiration;
use crate::bucket::view::BucketView;
use crate::clock::timestamp;
use crate::compat::signed::RESPONSE_HEADERS;
use crate::gateway::GatewayInner;
use crate::identity::access::selected;
use crate::request::given::{customer, http_date, open_key, show_sse};

pub(crate) async fn get_object(
    inner: &GatewayInner,
    mut request: S3Request<GetObjectInput>,
) -> Answer<GetObjectOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    check_no_sse(&origin)?;
    check_overrides(&origin)?;
    input.part_number.map(part_number).transpose()?;
    let (found, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    let conditions = ReadConditions {
        if_match: input.if_match.as_ref(),
        if_none_match: input.if_none_match.as_ref(),
        modified_since: input.if_modified_since.as_ref(),
        unmodified_since: input.if_unmodified_since.as_ref(),
    };
    check(&conditions, &found, &attributes)?;
    let key = open_key(inner, attributes.encryption.as_ref(), &customer!(input))?;
    let span = span(&found, &attributes, input.range.as_ref(), input.part_number)?;
    let mut output = described(inner, &view, &input.key, &found, &attributes);
    if input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == dto::ChecksumMode::ENABLED)
    {
        let fields = checksum(&attributes, &span, input.part_number, found.version.size);
        output.checksum_type = fields.checksum_type.clone();
        show!(fields, output);
    }
    if input.part_number.is_some() && !attributes.parts.is_empty() {
        output.parts_count = i32::try_from(attributes.parts.len()).ok();
    }
    if span.partial {
        output.content_range = Some(span.content_range(found.version.size));
    }
    output.content_length = Some(signed(span.bytes.end - span.bytes.start));
    output.body = Some(blob(reader(&found, &attributes, key.as_ref(), span.bytes)));
    Ok(S3Response::new(output))
}

pub(crate) async fn head_object(
    inner: &GatewayInner,
    mut request: S3Request<HeadObjectInput>,
) -> Answer<HeadObjectOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    check_no_sse(&origin)?;
    check_overrides(&origin)?;
    input.part_number.map(part_number).transpose()?;
    let (found, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    let conditions = ReadConditions {
        if_match: input.if_match.as_ref(),
        if_none_match: input.if_none_match.as_ref(),
        modified_since: input.if_modified_since.as_ref(),
        unmodified_since: input.if_unmodified_since.as_ref(),
    };
    check(&conditions, &found, &attributes)?;
    open_key(inner, attributes.encryption.as_ref(), &customer!(input))?;
    let span = span(&found, &attributes, input.range.as_ref(), input.part_number)?;
    let described = described(inner, &view, &input.key, &found, &attributes);
    let mut output = head_of(described);
    let overrides = Overrides {
        cache_control: input.response_cache_control,
        content_disposition: input.response_content_disposition,
        content_encoding: input.response_content_encoding,
        content_language: input.response_content_language,
        content_type: input.response_content_type,
        expires: input.response_expires,
    };
    override_head(&mut output, overrides);
    if input.checksum_mode.as_ref().is_some_and(|mode| mode.as_str() == dto::ChecksumMode::ENABLED)
    {
        let fields = checksum(&attributes, &span, input.part_number, found.version.size);
        output.checksum_type = fields.checksum_type.clone();
        show!(fields, output);
    }
    if input.part_number.is_some() && !attributes.parts.is_empty() {
        output.parts_count = i32::try_from(attributes.parts.len()).ok();
    }
    output.content_length = Some(signed(span.bytes.end - span.bytes.start));
    let mut response = S3Response::new(output);
    if !attributes.tags.is_empty() {
        response.headers.insert(X_AMZ_TAGGING_COUNT, attributes.tags.len().into());
    }
    if span.partial {
        response.output.content_range = Some(span.content_range(found.version.size));
        response.status = Some(hyper::StatusCode::PARTIAL_CONTENT);
    }
    Ok(response)
}

/// Headers that the request wants in place of the object's.
fn override_head(output: &mut HeadObjectOutput, asked: Overrides) {
    let set = |field: &mut Option<String>, asked: Option<String>| {
        if asked.is_some() {
            *field = asked;
        }
    };
    set(&mut output.cache_control, asked.cache_control);
    set(&mut output.content_disposition, asked.content_disposition);
    set(&mut output.content_encoding, asked.content_encoding);
    set(&mut output.content_language, asked.content_language);
    set(&mut output.content_type, asked.content_type);
    if asked.expires.is_some() {
        output.expires = asked.expires;
    }
}

/// Headers by which a request may replace those of the object.
struct Overrides {
    cache_control: Option<String>,
    content_disposition: Option<String>,
    content_encoding: Option<String>,
    content_language: Option<String>,
    content_type: Option<String>,
    expires: Option<Timestamp>,
}

/// Whoever may read without a signature does not choose the headers by which browsers judge what is read.
fn check_overrides(origin: &RequestOrigin) -> S3Result<()> {
    if origin.caller.user.is_none()
        && RESPONSE_HEADERS.iter().any(|name| origin.query(name).is_some())
    {
        return Err(s3_error!(
            InvalidRequest,
            "Request specific response headers cannot be used for anonymous GET requests."
        ));
    }
    Ok(())
}

/// What is read of an object.
struct ReadSpan {
    bytes: Span<u64>,
    partial: bool,
}

impl ReadSpan {
    fn content_range(&self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.bytes.start, self.bytes.end.saturating_sub(1))
    }
}

fn span(
    found: &FoundVersion,
    attributes: &Attributes,
    range: Option<&Range>,
    part: Option<i32>,
) -> S3Result<ReadSpan> {
    let size = found.version.size;
    if let Some(number) = part {
        if range.is_some() {
            return Err(s3_error!(
                InvalidRequest,
                "Cannot specify both Range header and partNumber query parameter"
            ));
        }
        let bytes = part_span(attributes, number, size)?;
        return Ok(ReadSpan { partial: size > 0, bytes });
    }
    match range {
        None => Ok(ReadSpan { bytes: 0..size, partial: false }),
        Some(range) => {
            let bytes = range.check(size).map_err(|_| unsatisfiable(range, size))?;
            // Of nothing there is no part.
            Ok(ReadSpan { partial: size > 0, bytes })
        }
    }
}

fn part_span(attributes: &Attributes, number: i32, size: u64) -> S3Result<Span<u64>> {
    let missing = || s3_error!(InvalidPart, "The requested partnumber is not satisfiable");
    if attributes.parts.is_empty() {
        return if number == 1 { Ok(0..size) } else { Err(missing()) };
    }
    let index = parts_index(attributes, number).ok_or_else(missing)?;
    let start: u64 = attributes.parts.iter().take(index).map(|part| part.size).sum();
    let len = attributes.parts.get(index).map_or(0, |part| part.size);
    Ok(start..start + len)
}

fn parts_index(attributes: &Attributes, number: i32) -> Option<usize> {
    attributes.parts.iter().position(|part| i32::from(part.number) == number)
}

/// The checksum of what is read: of the object, or of one of its parts; of other ranges there is none.
fn checksum(
    attributes: &Attributes,
    span: &ReadSpan,
    part: Option<i32>,
    size: u64,
) -> dto::Checksum {
    if let Some(index) = part.and_then(|number| parts_index(attributes, number)) {
        let value =
            attributes.parts.get(index).map(|part| part.checksum.as_slice()).unwrap_or_default();
        let checksum = attributes.checksum.as_ref();
        let mut fields = sums::part(checksum.map(|checksum| checksum.kind), value);
        fields.checksum_type = checksum.map(|checksum| sums::checksum_type(checksum.composite));
        return fields;
    }
    if span.bytes == (0..size) {
        sums::fields(attributes.checksum.as_ref(), attributes.parts.len())
    } else {
        dto::Checksum::default()
    }
}

/// Bytes of an object, decrypted where they are encrypted.
pub(crate) fn reader(
    found: &FoundVersion,
    attributes: &Attributes,
    key: Option<&BodyKey>,
    bytes: Span<u64>,
) -> BodyReader {
    let Some(key) = key else { return found.body.read(bytes) };
    let parts: Vec<u64> = match attributes.parts.as_slice() {
        [] => vec![found.version.size],
        parts => parts.iter().map(|part| part.size).collect(),
    };
    cipher::read(&Arc::clone(&found.body), key, &parts, bytes)
}

/// A reader as the protocol library takes it. An error ends the connection: the head of the answer has gone by then.
fn blob(reader: BodyReader) -> StreamingBlob {
    let frames = reader.map(|data| match data {
        Ok(data) => Ok(Frame::data(data)),
        Err(error) => {
            tracing::error!(%error, "read of an object failed");
            Err(std::io::Error::other(error))
        }
    });
    StreamingBlob::from(Body::http_body_unsync(StreamBody::new(frames)))
}

/// Encryption is the object's; a request to read must not name one.
fn check_no_sse(origin: &RequestOrigin) -> S3Result<()> {
    match origin.header("x-amz-server-side-encryption") {
        Some(_) => Err(s3_error!(
            InvalidRequest,
            "x-amz-server-side-encryption header is not supported for this operation."
        )),
        None => Ok(()),
    }
}

fn check(
    conditions: &ReadConditions<'_>,
    found: &FoundVersion,
    attributes: &Attributes,
) -> S3Result<()> {
    match conditions.check(&found.version, &attributes.etag) {
        Ok(()) => Ok(()),
        Err(ConditionFailure::Changed) => Err(s3_error!(
            PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold"
        )),
        Err(ConditionFailure::Known) => {
            let mut error = S3Error::new(S3ErrorCode::NotModified);
            let mut headers = hyper::HeaderMap::new();
            if let Ok(tag) = etag(&attributes.etag).to_http_header() {
                headers.insert(hyper::header::ETAG, tag);
            }
            if let Some(date) =
                http_date(&timestamp(found.version.modified_ms)).and_then(|date| date.parse().ok())
            {
                headers.insert(hyper::header::LAST_MODIFIED, date);
            }
            error.set_headers(headers);
            Err(error)
        }
    }
}

/// All that an object's headers tell.
fn described(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    found: &FoundVersion,
    attributes: &Attributes,
) -> GetObjectOutput {
    let header = |name: &str| attributes.header(name).map(str::to_owned);
    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        cache_control: header("cache-control"),
        content_disposition: header("content-disposition"),
        content_encoding: header("content-encoding"),
        content_language: header("content-language"),
        content_type: Some(
            header("content-type").unwrap_or_else(|| "binary/octet-stream".to_owned()),
        ),
        expires: header("expires")
            .and_then(|text| Timestamp::parse(TimestampFormat::HttpDate, &text).ok()),
        website_redirect_location: header("x-amz-website-redirect-location"),
        e_tag: Some(etag(&attributes.etag)),
        last_modified: Some(timestamp(found.version.modified_ms)),
        metadata: (!attributes.metadata.is_empty())
            .then(|| attributes.metadata.iter().cloned().collect()),
        storage_class: (!attributes.storage_class.is_empty())
            .then(|| StorageClass::from(attributes.storage_class.clone())),
        tag_count: i32::try_from(attributes.tags.len()).ok().filter(|count| *count > 0),
        version_id: version_id(view, &found.version),
        object_lock_legal_hold_status: attributes.legal_hold.map(|hold| {
            ObjectLockLegalHoldStatus::from_static(if hold {
                ObjectLockLegalHoldStatus::ON
            } else {
                ObjectLockLegalHoldStatus::OFF
            })
        }),
        object_lock_mode: attributes.retention.map(|retention| {
            ObjectLockMode::from_static(if retention.compliance {
                ObjectLockMode::COMPLIANCE
            } else {
                ObjectLockMode::GOVERNANCE
            })
        }),
        object_lock_retain_until_date: attributes
            .retention
            .map(|retention| timestamp(retention.until_ms)),
        expiration: expiration(inner, view, key, &found.version, attributes),
        ..GetObjectOutput::default()
    };
    show_sse!(attributes.encryption.as_ref(), output);
    output
}

/// A range behind the end of an object.
fn unsatisfiable(range: &Range, size: u64) -> S3Error {
    let error = s3_error!(InvalidRange, "The requested range is not satisfiable");
    let (asked, size) = (range.to_header_string(), size.to_string());
    let mut error =
        with_elements(error, &[("RangeRequested", &asked), ("ActualObjectSize", &size)]);
    if let Ok(value) = format!("bytes */{size}").parse() {
        let mut headers = error.headers().cloned().unwrap_or_default();
        headers.insert(CONTENT_RANGE, value);
        error.set_headers(headers);
    }
    error
}

fn head_of(from: GetObjectOutput) -> HeadObjectOutput {
    HeadObjectOutput {
        accept_ranges: from.accept_ranges,
        cache_control: from.cache_control,
        content_disposition: from.content_disposition,
        content_encoding: from.content_encoding,
        content_language: from.content_language,
        content_type: from.content_type,
        e_tag: from.e_tag,
        expiration: from.expiration,
        expires: from.expires,
        last_modified: from.last_modified,
        metadata: from.metadata,
        object_lock_legal_hold_status: from.object_lock_legal_hold_status,
        object_lock_mode: from.object_lock_mode,
        object_lock_retain_until_date: from.object_lock_retain_until_date,
        sse_customer_algorithm: from.sse_customer_algorithm,
        sse_customer_key_md5: from.sse_customer_key_md5,
        ssekms_key_id: from.ssekms_key_id,
        server_side_encryption: from.server_side_encryption,
        storage_class: from.storage_class,
        version_id: from.version_id,
        website_redirect_location: from.website_redirect_location,
        ..HeadObjectOutput::default()
    }
}
