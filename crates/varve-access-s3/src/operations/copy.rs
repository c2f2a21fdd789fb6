//! Copying objects, and parts of them into uploads.

use std::ops::Range;

use hyper::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use s3s::dto::{
    CopyObjectInput, CopyObjectOutput, CopyObjectResult, CopyPartResult, CopySource, ETagCondition,
    MetadataDirective, TaggingDirective, UploadPartCopyInput, UploadPartCopyOutput,
};
use s3s::{S3Request, S3Result, s3_error};
use varve_object::{
    Attributes, Checksum, ChecksumKind, FoundVersion, NewBody, SMALL_BODY_MAX, Select, Version,
};
use varve_stdx::hex;

use super::put::{NewObject, check_early, check_key, check_quota, place, store};
use super::{
    Answer, ReadConditions, RequestOrigin, answer, conditions, etag, found, new_version_id,
    version_id,
};
use crate::answers::error::{invalid_argument, of_store};
use crate::body::cipher::{BodyKey, collect};
use crate::body::md5_queue::{BodyMd5, Md5Queue};
use crate::body::receive::{BODY_BYTES_MAX, BodyDestination, ReceivedBody, from_reader};
use crate::body::sums::{self, show};
use crate::bucket::name::is_bucket_name;
use crate::clock::timestamp;
use crate::gateway::GatewayInner;
use crate::identity::access::{RequestTarget, check_expected_owner, selected};
use crate::operations::get::reader;
use crate::request::given::{Customer, REDIRECT, given, open_key, show_sse};

/// Where bytes come from.
struct BytesSource {
    found: FoundVersion,
    attributes: Attributes,
    key: Option<BodyKey>,
    /// Version for the answer.
    version: Option<String>,
    same: bool,
}

/// The client's key for the source.
macro_rules! source_customer {
    ($input:expr) => {
        Customer {
            algorithm: $input.copy_source_sse_customer_algorithm.clone(),
            key: $input.copy_source_sse_customer_key.clone(),
            md5: $input.copy_source_sse_customer_key_md5.clone(),
        }
    };
}

macro_rules! source_conditions {
    ($input:expr) => {
        ReadConditions {
            if_match: $input.copy_source_if_match.as_ref(),
            if_none_match: $input.copy_source_if_none_match.as_ref(),
            modified_since: $input.copy_source_if_modified_since.as_ref(),
            unmodified_since: $input.copy_source_if_unmodified_since.as_ref(),
        }
    };
}

/// Whence and whither.
struct Ways<'a> {
    from: &'a CopySource,
    bucket: &'a str,
    key: &'a str,
}

async fn source(
    inner: &GatewayInner,
    origin: &RequestOrigin,
    ways: Ways<'_>,
    conditions: ReadConditions<'_>,
    customer: &Customer,
) -> S3Result<BytesSource> {
    let CopySource::Bucket { bucket, key, version_id: id } = ways.from else {
        return Err(s3_error!(NotImplemented));
    };
    if !is_bucket_name(bucket) {
        let text = "Invalid copy source bucket name";
        return Err(invalid_argument(text, "x-amz-copy-source", bucket));
    }
    let view = inner.view(bucket).await?;
    check_expected_owner(origin.headers(), "x-amz-source-expected-bucket-owner", &view)?;
    let select = selected(&id.as_deref().map(str::to_owned))?;
    let action = if select == Select::Newest { "s3:GetObject" } else { "s3:GetObjectVersion" };
    origin.authorize(inner, RequestTarget { view: &view, key: Some(key), select }, action).await?;
    let (found, attributes) = found(inner, &view, key, select).await?;
    conditions.check(&found.version, &attributes.etag).map_err(|_| {
        s3_error!(
            PreconditionFailed,
            "At least one of the pre-conditions you specified did not hold"
        )
    })?;
    let opened = open_key(inner, attributes.encryption.as_ref(), customer)?;
    let same = &**bucket == ways.bucket && &**key == ways.key && select == Select::Newest;
    Ok(BytesSource {
        version: version_id(&view, &found.version),
        found,
        attributes,
        key: opened,
        same,
    })
}

pub(crate) async fn copy_object(
    inner: &GatewayInner,
    mut request: S3Request<CopyObjectInput>,
) -> Answer<CopyObjectOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    check_key(&input.key)?;
    let replace = directive(
        input.metadata_directive.as_ref().map(MetadataDirective::as_str),
        ("metadata", "x-amz-metadata-directive"),
    )?;
    let replace_tags = directive(
        input.tagging_directive.as_ref().map(TaggingDirective::as_str),
        ("tagging", "x-amz-tagging-directive"),
    )?;
    let algorithm = input.checksum_algorithm.as_ref();
    let sum = algorithm.map(|algorithm| sums::kind_of(algorithm.as_str())).transpose()?;
    let ways = Ways { from: &input.copy_source, bucket: &input.bucket, key: &input.key };
    let source =
        source(inner, &origin, ways, source_conditions!(input), &source_customer!(input)).await?;
    if source.found.version.size > BODY_BYTES_MAX {
        return Err(s3_error!(
            InvalidRequest,
            "The specified copy source is larger than the maximum allowable size for a copy source"
        ));
    }
    let conditions = conditions(
        if_match(&origin, IF_MATCH)?.as_ref(),
        if_match(&origin, IF_NONE_MATCH)?.as_ref(),
    );
    check_early(inner, &view, &input.key, &conditions).await?;
    let given = given!(input);
    let changed = replace
        || given.storage_class.is_some()
        || given.sse.algorithm.is_some()
        || given.sse.customer.is_given()
        // Without a key of the client, what was encrypted with one is decrypted, or encrypted by the bucket's rule.
        || source_customer!(input).is_given();
    if source.same && !changed && input.website_redirect_location.is_none() {
        let text = "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, \
                    storage class, website redirect location or encryption attributes.";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    let (mut attributes, key) = given.attributes(inner, &view, &origin.caller)?;
    if !replace {
        take_headers(&mut attributes, &source.attributes);
    }
    if !replace_tags {
        attributes.tags = source.attributes.tags.clone();
    }
    check_quota(inner, &view, source.found.version.size).await?;
    let body =
        body(place(inner, &view, &input.key), &source, key.as_ref(), sum, &mut attributes).await?;
    let size = source.found.version.size;
    let new = NewObject { key: &input.key, size, body, attributes: &attributes, conditions };
    let version = store(inner, &view, new).await?;
    let mut output = CopyObjectOutput {
        copy_object_result: Some(result(&attributes, &version)),
        copy_source_version_id: source.version,
        version_id: new_version_id(&view, &version),
        ..CopyObjectOutput::default()
    };
    show_sse!(attributes.encryption.as_ref(), output);
    answer(output)
}

/// A condition on what the copy replaces, which the protocol library does not read.
fn if_match(origin: &RequestOrigin, name: HeaderName) -> S3Result<Option<ETagCondition>> {
    let value = origin.headers().get(&name);
    let parsed = value.map(|value| ETagCondition::parse_http_header(value.as_bytes()));
    parsed.transpose().map_err(|_| {
        let text = "The condition is not an entity tag";
        invalid_argument(text, name.as_str(), origin.header(name.as_str()).unwrap_or_default())
    })
}

/// Headers and metadata of the source. A redirect belongs to the object that it was given to.
fn take_headers(attributes: &mut Attributes, source: &Attributes) {
    attributes.headers.retain(|(name, _)| name == REDIRECT);
    let kept = source.headers.iter().filter(|(name, _)| name != REDIRECT);
    attributes.headers.extend(kept.cloned());
    attributes.metadata.clone_from(&source.metadata);
}

fn result(attributes: &Attributes, version: &Version) -> CopyObjectResult {
    let mut result = CopyObjectResult {
        e_tag: Some(etag(&attributes.etag)),
        last_modified: Some(timestamp(version.modified_ms)),
        ..CopyObjectResult::default()
    };
    let fields = sums::fields(attributes.checksum.as_ref(), attributes.parts.len());
    result.checksum_type = fields.checksum_type.clone();
    show!(fields, result);
    result
}

/// Whether to replace; `of` is what, and the header that tells.
fn directive(text: Option<&str>, of: (&str, &str)) -> S3Result<bool> {
    match text {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => Err(invalid_argument(&format!("Unknown {} directive.", of.0), of.1, other)),
    }
}

/// The body of a copy, and the attributes that go with the bytes. Bytes that need no work are not moved.
async fn body(
    place: BodyDestination<'_>,
    source: &BytesSource,
    key: Option<&BodyKey>,
    sum: Option<ChecksumKind>,
    attributes: &mut Attributes,
) -> S3Result<NewBody> {
    let stored = source.attributes.checksum.as_ref().map(|checksum| checksum.kind);
    let plain = source.key.is_none() && key.is_none();
    if plain && (sum.is_none() || sum == stored) {
        attributes.etag = source.attributes.etag.clone();
        attributes.checksum = source.attributes.checksum.clone();
        attributes.parts = source.attributes.parts.clone();
        return shared(place, &source.found, 0..source.found.body.len()).await;
    }
    let reader = reader(
        &source.found,
        &source.attributes,
        source.key.as_ref(),
        0..source.found.version.size,
    );
    let kind = sum.or(stored);
    let received =
        from_reader(place, reader, source.found.version.size, key, kind).await.map_err(of_store)?;
    attributes.etag = hex(&received.md5);
    attributes.checksum =
        kind.zip(received.sum).map(|(kind, value)| Checksum { kind, composite: false, value });
    Ok(received.body)
}

async fn shared(
    place: BodyDestination<'_>,
    found: &FoundVersion,
    range: Range<u64>,
) -> S3Result<NewBody> {
    if range.end - range.start <= SMALL_BODY_MAX as u64 {
        return collect(found.body.read(range)).await.map(NewBody::Small).map_err(of_store);
    }
    place
        .store
        .stage_copy(place.bucket, place.key, &*found.body, range)
        .await
        .map(NewBody::Staged)
        .map_err(of_store)
}

pub(crate) async fn upload_part_copy(
    inner: &GatewayInner,
    mut request: S3Request<UploadPartCopyInput>,
) -> Answer<UploadPartCopyOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    super::multipart::part_number(input.part_number)?;
    let ways = Ways { from: &input.copy_source, bucket: &input.bucket, key: &input.key };
    let source =
        source(inner, &origin, ways, source_conditions!(input), &source_customer!(input)).await?;
    let size = source.found.version.size;
    let range =
        input.copy_source_range.as_deref().map_or(Ok(0..size), |text| copy_range(text, size))?;
    if range.end - range.start > BODY_BYTES_MAX {
        return Err(s3_error!(
            InvalidRequest,
            "The specified copy source is larger than the maximum allowable size for a copy source"
        ));
    }
    let customer = crate::request::given::customer!(input);
    let target = super::multipart::target(
        inner,
        &view,
        &input.key,
        &input.upload_id,
        input.part_number,
        &customer,
    )
    .await?;
    // A part needs the MD5 of its bytes, so these are read; the store need not write them again.
    let reader = reader(&source.found, &source.attributes, source.key.as_ref(), range.clone());
    let plain = source.key.is_none() && target.key.is_none();
    let received = if plain {
        let read = hashed(&inner.md5, reader, target.sum).await.map_err(of_store)?;
        ReceivedBody {
            body: shared(place(inner, &view, &input.key), &source.found, range).await?,
            ..read
        }
    } else {
        let (place, len) = (place(inner, &view, &input.key), range.end - range.start);
        from_reader(place, reader, len, target.key.as_ref(), target.sum).await.map_err(of_store)?
    };
    let (part, attributes) = target.put(inner, &view, &input.key, received).await?;
    let mut result = CopyPartResult {
        e_tag: Some(etag(&attributes.etag)),
        last_modified: Some(timestamp(part.modified_ms)),
        ..CopyPartResult::default()
    };
    show!(
        sums::part(
            attributes.checksum.as_ref().map(|sum| sum.kind),
            attributes.checksum.as_ref().map_or(&[], |sum| &sum.value)
        ),
        result
    );
    let mut output = UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: source.version,
        ..UploadPartCopyOutput::default()
    };
    show_sse!(target.encryption.as_ref(), output);
    answer(output)
}

async fn hashed(
    md5: &Md5Queue,
    mut reader: varve_object::BodyReader,
    sum: Option<ChecksumKind>,
) -> varve_object::Result<ReceivedBody> {
    use futures_util::StreamExt;
    let mut hasher = sum.map(sums::Hasher::new);
    let (mut md5, mut size) = (BodyMd5::new(md5), 0);
    while let Some(data) = reader.next().await {
        let data = data?;
        size += data.len() as u64;
        hasher.iter_mut().for_each(|hasher| hasher.update(&data));
        md5.update(data).await;
    }
    Ok(ReceivedBody {
        body: NewBody::Small(bytes::Bytes::new()),
        size,
        md5: md5.finish().await,
        sum: hasher.map(sums::Hasher::finish),
    })
}

/// `bytes=first-last`, both within the source.
fn copy_range(text: &str, size: u64) -> S3Result<Range<u64>> {
    let parsed = text.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let parsed = parsed
        .and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
    let Some((first, last)) = parsed.filter(|(first, last)| first <= last) else {
        return Err(s3_error!(
            InvalidArgument,
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the zero-based offsets of the first and last bytes to copy"
        ));
    };
    if last >= size {
        return Err(s3_error!(
            InvalidRange,
            "Range specified is not valid for source object of size: {size}"
        ));
    }
    Ok(first..last + 1)
}
