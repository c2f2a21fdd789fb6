//! Uploads in parts.

use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{
    self, AbortMultipartUploadInput, AbortMultipartUploadOutput, ChecksumAlgorithm, ChecksumType,
    CompleteMultipartUploadInput, CompleteMultipartUploadOutput, CompletedPart,
    CreateMultipartUploadInput, CreateMultipartUploadOutput, Initiator, ListMultipartUploadsInput,
    ListMultipartUploadsOutput, ListPartsInput, ListPartsOutput, MultipartUpload, StorageClass,
    UploadPartInput, UploadPartOutput,
};
use s3s::{S3ErrorCode, S3Request, S3Result, s3_error};
use varve_object::{
    Attributes, Checksum, ChecksumKind, Encryption, NewBody, PartEntry, PartRef, Select, Upload,
    UploadId, UploadPart, Version,
};
use varve_stdx::{hex, parse_hex};

use super::list::{NameEncoding, at_least_0, limit, non_empty as some};
use super::put::{NewObject, check_key, check_quota, place, store};
use super::{Answer, RequestOrigin, answer, conditions, etag, new_version_id, signed};
use crate::answers::error::{NO_PART, invalid_argument, of_store};
use crate::body::cipher::BodyKey;
use crate::body::receive::{Intake, Length, ReceivedBody, declared_len, from_client};
use crate::body::sums::{self, ChecksumRequest, show};
use crate::bucket::view::BucketView;
use crate::clock::{ms_of, now_ms, timestamp};
use crate::compat::unframed::UnframedBody;
use crate::gateway::GatewayInner;
use crate::identity::acl::owner;
use crate::request::given::{Customer, content_md5, customer, given, open_key, show_sse};

/// Highest number of a part.
const PART_MAX: u16 = 10_000;
/// Uploads and parts looked at together.
const LOOK_AT: usize = 1000;
/// Least length of all parts but the last, in bytes.
const PART_BYTES_MIN: u64 = 5 << 20;

/// Where a part goes.
pub(crate) struct PartTarget {
    upload: UploadId,
    number: u16,
    pub(crate) key: Option<BodyKey>,
    /// Checksum that the upload was begun with.
    pub(crate) sum: Option<ChecksumKind>,
    /// Each part must come with one.
    composite: bool,
    pub(crate) encryption: Option<Encryption>,
}

impl PartTarget {
    pub(crate) async fn put(
        &self,
        inner: &GatewayInner,
        view: &BucketView,
        key: &str,
        received: ReceivedBody,
    ) -> S3Result<(UploadPart, Attributes)> {
        let checksum = self.sum.zip(received.sum).map(|(kind, value)| Checksum {
            kind,
            composite: false,
            value,
        });
        let attributes = Attributes { etag: hex(&received.md5), checksum, ..Attributes::default() };
        let part = UploadPart {
            number: self.number,
            generation: 0,
            size: received.size,
            modified_ms: now_ms(),
            attributes: attributes.encode(),
        };
        let part = inner
            .store
            .put_part(view.id(), key, self.upload, part, received.body)
            .await
            .map_err(of_store)?;
        Ok((part, attributes))
    }
}

fn upload_id(text: &str) -> S3Result<UploadId> {
    let id = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 16);
    id.map(UploadId).ok_or_else(no_upload)
}

fn no_upload() -> s3s::S3Error {
    s3_error!(NoSuchUpload, "The specified multipart upload does not exist.")
}

fn id_text(id: UploadId) -> String {
    format!("{:016x}", id.0)
}

pub(crate) async fn upload(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    id: &str,
) -> S3Result<(Upload, Attributes)> {
    let upload = inner.store.upload(view.id(), key, upload_id(id)?).await;
    let upload = inner.still(view, upload).await?;
    let attributes = Attributes::decode(&upload.attributes).map_err(of_store)?;
    Ok((upload, attributes))
}

/// An upload's part of a number, with the key it is encrypted with.
pub(crate) async fn target(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    id: &str,
    number: i32,
    customer: &Customer,
) -> S3Result<PartTarget> {
    let number = part_number(number)?;
    let (upload, attributes) = upload(inner, view, key, id).await?;
    let opened = open_key(inner, attributes.encryption.as_ref(), customer)?;
    let begun = attributes.checksum;
    Ok(PartTarget {
        upload: upload.id,
        number,
        key: opened,
        sum: begun.as_ref().map(|begun| begun.kind),
        composite: begun.is_some_and(|begun| begun.composite),
        encryption: attributes.encryption,
    })
}

/// A part's number, if it can be one.
pub(crate) fn part_number(asked: i32) -> S3Result<u16> {
    let number = u16::try_from(asked).ok().filter(|number| (1..=PART_MAX).contains(number));
    number.ok_or_else(|| {
        let text = "Part number must be an integer between 1 and 10000, inclusive.";
        invalid_argument(text, "partNumber", &asked.to_string())
    })
}

pub(crate) async fn create(
    inner: &GatewayInner,
    mut request: S3Request<CreateMultipartUploadInput>,
) -> Answer<CreateMultipartUploadOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    check_key(&input.key)?;
    let (mut attributes, _) = given!(input).attributes(inner, &view, &origin.caller)?;
    let asked = input.checksum_type.as_ref().map(ChecksumType::as_str);
    if asked.is_some_and(|asked| !sums::is_type(asked)) {
        return Err(sums::invalid_type());
    }
    attributes.checksum = match &input.checksum_algorithm {
        Some(algorithm) => {
            let kind = sums::kind_of(algorithm.as_str())?;
            Some(Checksum { kind, composite: sums::composite(kind, asked)?, value: Vec::new() })
        }
        None if asked.is_some() => {
            return Err(s3_error!(
                InvalidRequest,
                "The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header."
            ));
        }
        None => None,
    };
    check_quota(inner, &view, 0).await?;
    let upload = inner
        .store
        .create_upload(view.id(), &input.key, now_ms(), attributes.encode())
        .await
        .map_err(of_store)?;
    let mut output = CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id_text(upload.id)),
        checksum_algorithm: attributes
            .checksum
            .as_ref()
            .map(|sum| ChecksumAlgorithm::from_static(sums::name(sum.kind))),
        checksum_type: attributes.checksum.as_ref().map(|sum| sums::checksum_type(sum.composite)),
        ..CreateMultipartUploadOutput::default()
    };
    show_sse!(attributes.encryption.as_ref(), output);
    answer(output)
}

pub(crate) async fn upload_part(
    inner: &GatewayInner,
    mut request: S3Request<UploadPartInput>,
) -> Answer<UploadPartOutput> {
    let origin = RequestOrigin::of(&mut request);
    let mut body = request.input.body.take();
    let outcome = UnframedBody::take(&mut request, &mut body);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let mut target =
        target(inner, &view, &input.key, &input.upload_id, input.part_number, &customer!(input))
            .await?;
    let len = declared_len(input.content_length)?;
    check_quota(inner, &view, len).await?;
    let wanted = sums::resolve_checksum(origin.headers(), input.checksum_algorithm.as_ref())?;
    let asked = wanted.as_ref().map(|wanted| wanted.kind);
    let begun = target.sum.filter(|begun| match asked {
        Some(asked) => asked != *begun,
        None => target.composite,
    });
    if let Some(begun) = begun {
        let (asked, begun) = (asked.map_or("null", sums::name), sums::name(begun));
        return Err(s3_error!(
            InvalidRequest,
            "Checksum Type mismatch occurred, expected checksum Type: {begun}, actual checksum Type: {asked}"
        ));
    }
    let sum = wanted.or(target.sum.map(|kind| ChecksumRequest { kind, value: None }));
    target.sum = sum.as_ref().map(|sum| sum.kind);
    let intake = Intake {
        len: Length::Exactly(len),
        md5: content_md5(input.content_md5.as_deref())?,
        sum,
        outcome,
        key: target.key.clone(),
    };
    let received = from_client(place(inner, &view, &input.key), body, intake).await?;
    let (_, attributes) = target.put(inner, &view, &input.key, received).await?;
    let mut output =
        UploadPartOutput { e_tag: Some(etag(&attributes.etag)), ..UploadPartOutput::default() };
    show_sse!(target.encryption.as_ref(), output);
    show!(
        sums::part(target.sum, attributes.checksum.as_ref().map_or(&[], |sum| &sum.value)),
        output
    );
    answer(output)
}

pub(crate) async fn complete(
    inner: &GatewayInner,
    mut request: S3Request<CompleteMultipartUploadInput>,
) -> Answer<CompleteMultipartUploadOutput> {
    let origin = RequestOrigin::of(&mut request);
    let location = origin.location(inner, &request.input.bucket, &request.input.key);
    let view = inner.view(&request.input.bucket).await?;
    let mut output = match completed_upload(inner, &view, &origin, &request.input).await {
        // It may have been completed before, or by another request at this time.
        Err(error) if *error.code() == S3ErrorCode::NoSuchUpload => {
            completed(inner, &view, &request.input).await?.ok_or(error)?
        }
        result => result?,
    };
    output.location = Some(location);
    answer(output)
}

async fn completed_upload(
    inner: &GatewayInner,
    view: &BucketView,
    origin: &RequestOrigin,
    input: &CompleteMultipartUploadInput,
) -> S3Result<CompleteMultipartUploadOutput> {
    let declared = sums::parse_checksum(origin.headers())?;
    let (upload, mut attributes) = upload(inner, view, &input.key, &input.upload_id).await?;
    let named = input
        .multipart_upload
        .as_ref()
        .and_then(|upload| upload.parts.as_deref())
        .unwrap_or_default();
    let stored = all_parts(inner, view, &upload).await?;
    let chosen = choose(named, &stored, attributes.checksum.as_ref())?;
    let size: u64 = chosen.iter().map(|part| part.part.size).sum();
    check_size(input.mpu_object_size, size)?;
    check_quota(inner, view, size).await?;
    let mut md5 = Md5::new();
    for part in &chosen {
        md5.update(&part.md5);
    }
    attributes.etag = format!("{}-{}", hex(&md5.finalize()), chosen.len());
    let sums_of_parts: Vec<(Vec<u8>, u64)> =
        chosen.iter().map(|part| (part.sum.clone(), part.part.size)).collect();
    if let Some(begun) = attributes.checksum.take() {
        attributes.checksum = Some(sums::of_parts(begun.kind, begun.composite, &sums_of_parts));
        check_declared(input, declared, attributes.checksum.as_ref(), chosen.len())?;
    }
    attributes.parts = chosen
        .iter()
        .map(|part| PartEntry {
            number: part.part.number,
            size: part.part.size,
            checksum: part.sum.clone(),
        })
        .collect();
    attributes.upload = Some(upload.id.0);
    let parts = chosen
        .iter()
        .map(|part| PartRef { number: part.part.number, generation: part.part.generation })
        .collect();
    let body = NewBody::Parts { upload: upload.id, parts };
    let conditions = conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
    let new = NewObject { key: &input.key, size, body, attributes: &attributes, conditions };
    let version = store(inner, view, new).await?;
    Ok(output(view, input, &attributes, &version))
}

/// The size that the client expects.
fn check_size(declared: Option<i64>, size: u64) -> S3Result<()> {
    match declared {
        Some(declared) if declared < 0 => Err(s3_error!(
            InvalidRequest,
            "Value for x-amz-mp-object-size header is less than zero: '{declared}'"
        )),
        Some(declared) if declared != signed(size) => Err(s3_error!(
            InvalidRequest,
            "The provided 'x-amz-mp-object-size' header value {declared} does not match what was computed: {size}"
        )),
        _ => Ok(()),
    }
}

fn output(
    view: &BucketView,
    input: &CompleteMultipartUploadInput,
    attributes: &Attributes,
    version: &Version,
) -> CompleteMultipartUploadOutput {
    let fields = sums::fields(attributes.checksum.as_ref(), attributes.parts.len());
    let shown = crate::request::given::describe_encryption(attributes.encryption.as_ref());
    let mut output = CompleteMultipartUploadOutput {
        bucket: Some(input.bucket.clone()),
        key: Some(input.key.clone()),
        e_tag: Some(etag(&attributes.etag)),
        version_id: new_version_id(view, version),
        checksum_type: fields.checksum_type.clone(),
        server_side_encryption: shown.algorithm.map(dto::ServerSideEncryption::from_static),
        ssekms_key_id: shown.key_id,
        ..CompleteMultipartUploadOutput::default()
    };
    show!(fields, output);
    output
}

/// The answer to a client that completes an upload again, because the first answer was lost: the object is what came of
/// it.
async fn completed(
    inner: &GatewayInner,
    view: &BucketView,
    input: &CompleteMultipartUploadInput,
) -> S3Result<Option<CompleteMultipartUploadOutput>> {
    let Ok(id) = upload_id(&input.upload_id) else { return Ok(None) };
    let found = inner.store.find(view.id(), &input.key, Select::Newest).await.map_err(of_store)?;
    let Some(found) = found else { return Ok(None) };
    let attributes = Attributes::decode(&found.version.attributes).map_err(of_store)?;
    Ok((attributes.upload == Some(id.0)).then(|| output(view, input, &attributes, &found.version)))
}

async fn all_parts(
    inner: &GatewayInner,
    view: &BucketView,
    upload: &Upload,
) -> S3Result<Vec<UploadPart>> {
    let mut all: Vec<UploadPart> = Vec::new();
    loop {
        let after = all.last().map_or(0, |part| part.number);
        let page = inner
            .store
            .list_parts(view.id(), &upload.key, upload.id, after, 1000)
            .await
            .map_err(of_store)?;
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page);
    }
}

/// A part that the client named.
struct ChosenPart<'a> {
    part: &'a UploadPart,
    md5: Vec<u8>,
    sum: Vec<u8>,
}

fn choose<'a>(
    named: &[CompletedPart],
    stored: &'a [UploadPart],
    begun: Option<&Checksum>,
) -> S3Result<Vec<ChosenPart<'a>>> {
    if named.is_empty() || named.len() > usize::from(PART_MAX) {
        return Err(s3_error!(MalformedXML));
    }
    let mut chosen: Vec<ChosenPart<'a>> = Vec::with_capacity(named.len());
    for one in named {
        let number = one.part_number.ok_or_else(|| s3_error!(MalformedXML))?;
        if number < 1 {
            let text = "PartNumber must be >= 1";
            return Err(invalid_argument(text, "PartNumber", &number.to_string()));
        }
        let tag = one.e_tag.as_ref().ok_or_else(|| s3_error!(MalformedXML))?;
        if chosen.last().is_some_and(|last| number <= i32::from(last.part.number)) {
            return Err(s3_error!(
                InvalidPartOrder,
                "The list of parts was not in ascending order."
            ));
        }
        let index = stored.binary_search_by_key(&number, |part| i32::from(part.number));
        let part = index.ok().and_then(|index| stored.get(index)).ok_or_else(invalid_part)?;
        let attributes = Attributes::decode(&part.attributes).map_err(of_store)?;
        if tag.value() != attributes.etag {
            return Err(invalid_part());
        }
        let sum = attributes.checksum.map(|sum| sum.value).unwrap_or_default();
        check_part(one, number, &sum, begun)?;
        let md5 = parse_hex(&attributes.etag).ok_or_else(invalid_part)?;
        chosen.push(ChosenPart { part, md5, sum });
    }
    let (_, all_but_last) = chosen.split_last().ok_or_else(invalid_part)?;
    if all_but_last.iter().any(|part| part.part.size < PART_BYTES_MIN) {
        return Err(s3_error!(
            EntityTooSmall,
            "Your proposed upload is smaller than the minimum allowed size"
        ));
    }
    Ok(chosen)
}

fn invalid_part() -> s3s::S3Error {
    s3_error!(InvalidPart, "{NO_PART}")
}

/// The checksum that a completion names for a part whose own is `sum`.
fn check_part(
    part: &CompletedPart,
    number: i32,
    sum: &[u8],
    begun: Option<&Checksum>,
) -> S3Result<()> {
    let declared = sums::of_completed(part).map_err(|_| {
        let text = "Invalid Base64 or multiple checksums present in request";
        invalid_argument(text, "Checksum", "")
    })?;
    let name = |kind| sums::name(kind).to_ascii_lowercase();
    match (declared, begun) {
        (Some((kind, _)), Some(begun)) if kind != begun.kind => Err(s3_error!(
            BadDigest,
            "The {} you specified for part {number} did not match what we received.",
            name(kind)
        )),
        (Some((_, value)), _) if !sum.is_empty() && value != sum => Err(invalid_part()),
        _ => Ok(()),
    }
}

/// The checksum that the client expects of the whole, with or without the number of parts behind it.
fn check_declared(
    input: &CompleteMultipartUploadInput,
    declared: Option<(ChecksumKind, String)>,
    checksum: Option<&Checksum>,
    parts: usize,
) -> S3Result<()> {
    let Some(checksum) = checksum else { return Ok(()) };
    let asked = input.checksum_type.as_ref().map(ChecksumType::as_str);
    let begun = sums::checksum_type(checksum.composite);
    if asked.is_some_and(|asked| !sums::is_type(asked)) {
        return Err(sums::invalid_type());
    }
    if asked.is_some_and(|asked| !asked.eq_ignore_ascii_case(begun.as_str())) {
        return Err(s3_error!(
            InvalidRequest,
            "The upload was created using the {} checksum mode. The complete request must use the same checksum mode.",
            begun.as_str()
        ));
    }
    let Some((kind, text)) = declared else { return Ok(()) };
    let (plain, counted) = match text.rsplit_once('-') {
        Some((plain, count)) if !count.is_empty() && count.bytes().all(|c| c.is_ascii_digit()) => {
            (plain, count.parse().is_ok_and(|count: usize| count == parts))
        }
        _ => (text.as_str(), true),
    };
    // What is no checksum at all is none of these bytes, as in Ceph.
    let value = sums::decode(kind, plain).ok();
    if kind != checksum.kind || value.as_ref() != Some(&checksum.value) || !counted {
        return Err(s3_error!(
            BadDigest,
            "The {} you specified did not match the calculated checksum.",
            sums::name(kind)
        ));
    }
    Ok(())
}

pub(crate) async fn abort(
    inner: &GatewayInner,
    request: S3Request<AbortMultipartUploadInput>,
) -> Answer<AbortMultipartUploadOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    if let Some(time) = &input.if_match_initiated_time {
        let (upload, _) = upload(inner, &view, &input.key, &input.upload_id).await?;
        // A time to come says nothing.
        if ms_of(time) <= now_ms() && ms_of(time) / 1000 != upload.started_ms / 1000 {
            return Err(s3_error!(PreconditionFailed));
        }
    }
    inner
        .store
        .abort_upload(view.id(), &input.key, upload_id(&input.upload_id)?)
        .await
        .map_err(of_store)?;
    answer(AbortMultipartUploadOutput::default())
}

pub(crate) async fn list_parts(
    inner: &GatewayInner,
    request: S3Request<ListPartsInput>,
) -> Answer<ListPartsOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (upload, attributes) = upload(inner, &view, &input.key, &input.upload_id).await?;
    let max = limit(input.max_parts, "max-parts")?;
    let marker = at_least_0(input.part_number_marker, "part-number-marker")?.unwrap_or(0);
    let after = u16::try_from(marker).unwrap_or(u16::MAX); // No part has a higher number.
    let wanted = usize::try_from(max).unwrap_or(0);
    let parts = inner.store.list_parts(view.id(), &input.key, upload.id, after, wanted + 1).await;
    let mut parts = inner.still(&view, parts).await?;
    let more = parts.len() > wanted;
    parts.truncate(wanted);
    let last = parts.last().map(|part| i32::from(part.number));
    let (owner, class) = (owner(inner, &attributes.owner), class(&attributes));
    answer(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        checksum_algorithm: attributes
            .checksum
            .as_ref()
            .map(|sum| ChecksumAlgorithm::from_static(sums::name(sum.kind))),
        checksum_type: attributes.checksum.as_ref().map(|sum| sums::checksum_type(sum.composite)),
        initiator: Some(Initiator {
            display_name: owner.display_name.clone(),
            id: owner.id.clone(),
        }),
        owner: Some(owner),
        is_truncated: Some(more),
        max_parts: Some(max),
        part_number_marker: Some(marker),
        next_part_number_marker: last,
        parts: Some(parts.iter().map(part_entry).collect::<S3Result<_>>()?),
        storage_class: Some(class),
        ..ListPartsOutput::default()
    })
}

fn class(attributes: &Attributes) -> StorageClass {
    match attributes.storage_class.as_str() {
        "" => StorageClass::from_static(StorageClass::STANDARD),
        class => StorageClass::from(class.to_owned()),
    }
}

fn part_entry(part: &UploadPart) -> S3Result<dto::Part> {
    let attributes = Attributes::decode(&part.attributes).map_err(of_store)?;
    let mut entry = dto::Part {
        e_tag: Some(etag(&attributes.etag)),
        last_modified: Some(timestamp(part.modified_ms)),
        part_number: Some(i32::from(part.number)),
        size: Some(signed(part.size)),
        ..dto::Part::default()
    };
    if let Some(sum) = &attributes.checksum {
        show!(sums::part(Some(sum.kind), &sum.value), entry);
    }
    Ok(entry)
}

/// What a listing of uploads shall hold.
struct UploadQuery<'a> {
    prefix: &'a str,
    delimiter: Option<&'a str>,
    /// The key or group that the page before ended with.
    passed: Option<&'a str>,
    after: Option<(String, Option<UploadId>)>,
    wanted: usize,
}

/// A page of uploads.
#[derive(Default)]
struct UploadPage {
    uploads: Vec<Upload>,
    groups: Vec<String>,
    /// Key and id it ends with; a group has no id.
    last: Option<(String, String)>,
    more: bool,
}

async fn upload_page(
    inner: &GatewayInner,
    view: &BucketView,
    query: UploadQuery<'_>,
) -> S3Result<UploadPage> {
    let mut page = UploadPage::default();
    let mut after = query.after;
    if query.wanted == 0 {
        return Ok(page);
    }
    loop {
        let from = after.as_ref().map(|(key, id)| (key.as_str(), *id));
        let found = inner.store.list_uploads(view.id(), query.prefix, from, LOOK_AT).await;
        let found = inner.still(view, found).await?;
        let Some(end) = found.last() else { return Ok(page) };
        after = Some((end.key.clone(), Some(end.id)));
        for upload in found {
            let group = group(&upload.key, query.prefix, query.delimiter);
            let last = page.groups.last().map(String::as_str).or(query.passed);
            if group.is_some() && group == last {
                continue;
            }
            if page.uploads.len() + page.groups.len() == query.wanted {
                page.more = true;
                return Ok(page);
            }
            match group {
                Some(group) => {
                    page.last = Some((group.to_owned(), String::new()));
                    page.groups.push(group.to_owned());
                }
                None => {
                    page.last = Some((upload.key.clone(), id_text(upload.id)));
                    page.uploads.push(upload);
                }
            }
        }
    }
}

pub(crate) async fn list_uploads(
    inner: &GatewayInner,
    request: S3Request<ListMultipartUploadsInput>,
) -> Answer<ListMultipartUploadsOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let names = NameEncoding::of(input.encoding_type.as_ref())?;
    let max = limit(input.max_uploads, "max-uploads")?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let delimiter = some(input.delimiter);
    let after = match (some(input.key_marker.clone()), some(input.upload_id_marker.clone())) {
        (None, _) => None,
        (Some(key), None) => Some((key, None)),
        (Some(key), Some(id)) => {
            let text = "Invalid uploadId marker";
            let after =
                upload_id(&id).map_err(|_| invalid_argument(text, "upload-id-marker", &id))?;
            Some((key, Some(after)))
        }
    };
    let wanted = usize::try_from(max).unwrap_or(0);
    let query = UploadQuery {
        prefix: &prefix,
        delimiter: delimiter.as_deref(),
        passed: input.key_marker.as_deref(),
        after,
        wanted,
    };
    let UploadPage { uploads, groups, last, more } = upload_page(inner, &view, query).await?;
    let (next_key, next_id) = last.filter(|_| more).unzip();
    answer(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: names.prefixes(groups),
        delimiter: delimiter.map(|delimiter| names.out(&delimiter)),
        encoding_type: input.encoding_type,
        is_truncated: Some(more),
        key_marker: Some(names.out(&input.key_marker.unwrap_or_default())),
        max_uploads: Some(max),
        next_key_marker: next_key.map(|key| names.out(&key)),
        next_upload_id_marker: next_id,
        prefix: Some(names.out(&prefix)),
        request_charged: None,
        upload_id_marker: Some(input.upload_id_marker.unwrap_or_default()),
        uploads: Some(
            uploads
                .iter()
                .map(|upload| upload_entry(inner, names, upload))
                .collect::<S3Result<_>>()?,
        ),
    })
}

fn group<'k>(key: &'k str, prefix: &str, delimiter: Option<&str>) -> Option<&'k str> {
    let delimiter = delimiter?;
    let at = key.strip_prefix(prefix)?.find(delimiter)?;
    key.get(..prefix.len() + at + delimiter.len())
}

fn upload_entry(
    inner: &GatewayInner,
    names: NameEncoding,
    upload: &Upload,
) -> S3Result<MultipartUpload> {
    let attributes = Attributes::decode(&upload.attributes).map_err(of_store)?;
    let owner = owner(inner, &attributes.owner);
    Ok(MultipartUpload {
        checksum_algorithm: attributes
            .checksum
            .as_ref()
            .map(|sum| ChecksumAlgorithm::from_static(sums::name(sum.kind))),
        checksum_type: attributes.checksum.as_ref().map(|sum| sums::checksum_type(sum.composite)),
        initiated: Some(timestamp(upload.started_ms)),
        initiator: Some(Initiator {
            display_name: owner.display_name.clone(),
            id: owner.id.clone(),
        }),
        key: Some(names.out(&upload.key)),
        owner: Some(owner),
        storage_class: Some(class(&attributes)),
        upload_id: Some(id_text(upload.id)),
    })
}
