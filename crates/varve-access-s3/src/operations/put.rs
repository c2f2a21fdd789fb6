//! Putting an object in one request, from a body or from a form.

use s3s::dto::{PutObjectInput, PutObjectOutput};
use s3s::{S3Request, S3Result, s3_error};
use varve_object::rules::{self, Conditions};
use varve_object::{Attributes, Checksum, ChecksumKind, KeyChange, NewBody, Select, Version};
use varve_stdx::hex;

use super::{Answer, RequestOrigin, answer, conditions, etag, new_version_id};
use crate::answers::error::of_store;
use crate::body::receive::{BodyDestination, Intake, Length, declared_len, from_client};
use crate::body::sums::{self, ChecksumRequest, show};
use crate::bucket::lifecycle::expiration;
use crate::bucket::view::BucketView;
use crate::clock::now_ms;
use crate::compat::unframed::{BodyOutcome, UnframedBody};
use crate::gateway::GatewayInner;
use crate::request::given::{content_md5, given, show_sse};

/// Longest key, in bytes.
const KEY_BYTES_MAX: usize = 1024;

pub(crate) async fn put_object(
    inner: &GatewayInner,
    mut request: S3Request<PutObjectInput>,
) -> Answer<PutObjectOutput> {
    let origin = RequestOrigin::of(&mut request);
    let mut body = request.input.body.take();
    let outcome = UnframedBody::take(&mut request, &mut body);
    request.input.body = body;
    let len = Length::Exactly(declared_len(request.input.content_length)?);
    answer(put(inner, &origin, request.input, len, outcome).await?)
}

/// What all ways of putting come to.
pub(crate) async fn put(
    inner: &GatewayInner,
    origin: &RequestOrigin,
    input: PutObjectInput,
    len: Length,
    outcome: BodyOutcome,
) -> S3Result<PutObjectOutput> {
    let view = inner.view(&input.bucket).await?;
    check_key(&input.key)?;
    if input.write_offset_bytes.is_some() {
        return Err(s3_error!(NotImplemented));
    }
    let mut given = given!(input);
    given.acl.write = origin.header("x-amz-grant-write").map(str::to_owned);
    let (mut attributes, key) = given.attributes(inner, &view, &origin.caller)?;
    let known_len = match len {
        Length::Exactly(len) => len,
        Length::AtMost(_) => 0,
    };
    check_quota(inner, &view, known_len).await?;
    let conditions = conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
    check_early(inner, &view, &input.key, &conditions).await?;
    // Without any, one is kept all the same, as by Amazon.
    let sum = sums::resolve_checksum(origin.headers(), input.checksum_algorithm.as_ref())?
        .unwrap_or(ChecksumRequest { kind: ChecksumKind::Crc64Nvme, value: None });
    let kind = sum.kind;
    let intake = Intake {
        len,
        md5: content_md5(input.content_md5.as_deref().or(origin.header("content-md5")))?,
        sum: Some(sum),
        outcome,
        key,
    };
    let received = from_client(place(inner, &view, &input.key), input.body, intake).await?;
    if matches!(len, Length::AtMost(_)) {
        check_quota(inner, &view, received.size).await?;
    }
    attributes.etag = hex(&received.md5);
    attributes.checksum = received.sum.map(|value| Checksum { kind, composite: false, value });
    let new_size = received.size;
    let new = NewObject {
        key: &input.key,
        size: new_size,
        body: received.body,
        attributes: &attributes,
        conditions,
    };
    let version = store(inner, &view, new).await?;
    let mut output = PutObjectOutput {
        e_tag: Some(etag(&attributes.etag)),
        size: Some(i64::try_from(new_size).map_err(|_| s3_error!(InternalError))?),
        version_id: new_version_id(&view, &version),
        expiration: expiration(inner, &view, &input.key, &version, &attributes),
        ..PutObjectOutput::default()
    };
    show_sse!(attributes.encryption.as_ref(), output);
    let fields = sums::fields(attributes.checksum.as_ref(), 0);
    output.checksum_type = fields.checksum_type.clone();
    show!(fields, output);
    Ok(output)
}

/// An object that is ready to become visible.
pub(crate) struct NewObject<'a> {
    pub(crate) key: &'a str,
    pub(crate) size: u64,
    pub(crate) body: NewBody,
    pub(crate) attributes: &'a Attributes,
    pub(crate) conditions: Conditions,
}

/// Makes it visible.
pub(crate) async fn store(
    inner: &GatewayInner,
    view: &BucketView,
    new: NewObject<'_>,
) -> S3Result<Version> {
    let put = rules::ObjectPut {
        key: new.key.to_owned(),
        versioning: view.settings.versioning,
        now_ms: now_ms(),
        size: new.size,
        attributes: new.attributes.encode(),
        conditions: new.conditions,
    };
    let change: KeyChange = inner
        .store
        .change_key(view.id(), new.key, None, new.body, Box::new(move |view| rules::put(view, put)))
        .await
        .map_err(of_store)?;
    change.put.ok_or_else(|| s3_error!(InternalError))
}

/// Where the body of a key goes.
pub(crate) fn place<'a>(
    inner: &'a GatewayInner,
    view: &BucketView,
    key: &'a str,
) -> BodyDestination<'a> {
    BodyDestination { store: &*inner.store, md5: &inner.md5, bucket: view.id(), key }
}

pub(crate) fn check_key(key: &str) -> S3Result<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return Err(s3_error!(KeyTooLongError, "Your key is too long"));
    }
    Ok(())
}

/// A condition that fails already needs no body; the store checks it again when it counts.
pub(crate) async fn check_early(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    conditions: &Conditions,
) -> S3Result<()> {
    if *conditions == Conditions::default() {
        return Ok(());
    }
    let found = inner.store.find(view.id(), key, Select::Newest).await.map_err(of_store)?;
    conditions.check(key, found.map(|found| found.version).as_ref()).map_err(of_store)
}

/// Quotas of the bucket and of its owner. What is under way at the same time may exceed them.
pub(crate) async fn check_quota(
    inner: &GatewayInner,
    view: &BucketView,
    more: u64,
) -> S3Result<()> {
    let refused = |holder: &str| of_store(varve_object::Error::Quota { holder: holder.to_owned() });
    let settings = &view.settings;
    if settings.quota_bytes > 0 || settings.quota_objects > 0 {
        let usage = inner.store.usage(view.id()).await.map_err(of_store)?;
        let bytes =
            settings.quota_bytes > 0 && usage.bytes.saturating_add(more) > settings.quota_bytes;
        let objects = settings.quota_objects > 0 && usage.objects >= settings.quota_objects;
        if bytes || objects {
            return Err(refused(&view.bucket.name));
        }
    }
    // That of an owner who cannot be read bounds nothing meanwhile: clients of a bucket that is whole are not refused
    // for it.
    let quota = inner.users.user(view.owner()).map_or(0, |known| known.user.quota_bytes);
    if quota > 0
        && super::bucket::bytes_of_owner(inner, view.owner()).await?.saturating_add(more) > quota
    {
        return Err(refused(view.owner()));
    }
    Ok(())
}
