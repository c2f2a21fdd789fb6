//! Listings of objects and versions.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::dto::{
    self, ChecksumAlgorithm, CommonPrefix, DeleteMarkerEntry, EncodingType,
    ListObjectVersionsInput, ListObjectVersionsOutput, ListObjectsInput, ListObjectsOutput,
    ListObjectsV2Input, ListObjectsV2Output, Object, ObjectStorageClass, ObjectVersion,
    ObjectVersionStorageClass,
};
use s3s::{S3Request, S3Result, s3_error};
use varve_object::{Attributes, Item, ListPage, ListQuery, Marker, Select, Version};

use super::{Answer, RequestOrigin, answer, etag, signed};
use crate::answers::error::{invalid_argument, of_store};
use crate::body::sums;
use crate::bucket::view::BucketView;
use crate::clock::timestamp;
use crate::gateway::GatewayInner;
use crate::identity::acl::owner;
use crate::request::query::encode;

/// Most entries of a page.
const PAGE_MAX: i32 = 1000;

/// Whether names go out percent-encoded.
#[derive(Clone, Copy)]
pub(crate) struct NameEncoding {
    url: bool,
}

impl NameEncoding {
    pub(crate) fn of(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None | Some("") => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(_) => {
                Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request"))
            }
        }
    }

    pub(crate) fn out(self, name: &str) -> String {
        if self.url { encode(name) } else { name.to_owned() }
    }

    pub(crate) fn prefixes(self, groups: Vec<String>) -> Option<Vec<CommonPrefix>> {
        let prefix = |group: String| CommonPrefix { prefix: Some(self.out(&group)) };
        (!groups.is_empty()).then(|| groups.into_iter().map(prefix).collect())
    }
}

/// How many entries a client wants, in one page.
pub(crate) fn limit(asked: Option<i32>, name: &str) -> S3Result<i32> {
    Ok(at_least_0(asked, name)?.unwrap_or(PAGE_MAX).min(PAGE_MAX))
}

/// A number that a client gives, if it is one of those that Amazon takes.
pub(crate) fn at_least_0(asked: Option<i32>, name: &str) -> S3Result<Option<i32>> {
    if let Some(asked) = asked.filter(|asked| *asked < 0) {
        let text = format!("Argument {name} must be an integer between 0 and 2147483647");
        return Err(invalid_argument(&text, name, &asked.to_string()));
    }
    Ok(asked)
}

/// An empty delimiter is none.
pub(crate) fn non_empty(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// A page of a bucket that is here as long as it is read.
pub(crate) async fn page(
    inner: &GatewayInner,
    view: &BucketView,
    query: ListQuery,
) -> S3Result<ListPage> {
    if query.limit == 0 {
        return Ok(ListPage::default());
    }
    inner.still(view, inner.store.list(view.id(), &query).await).await
}

/// A version as a listing shows it.
struct ListedVersion {
    key: String,
    /// Whether it is the newest one of its key.
    newest: bool,
    version: Version,
    attributes: Attributes,
}

/// What a page holds, sorted by kind.
#[derive(Default)]
struct SortedPage {
    objects: Vec<ListedVersion>,
    groups: Vec<String>,
    last: Option<Item>,
    more: bool,
}

impl SortedPage {
    fn of(page: ListPage) -> S3Result<Self> {
        let mut sorted =
            Self { more: page.more, last: page.items.last().cloned(), ..Self::default() };
        for item in page.items {
            match item {
                Item::Group(prefix) => sorted.groups.push(prefix),
                Item::Version { key, newest, version } => {
                    let attributes = Attributes::decode(&version.attributes).map_err(of_store)?;
                    sorted.objects.push(ListedVersion { key, newest, version, attributes });
                }
            }
        }
        Ok(sorted)
    }

    fn len(&self) -> usize {
        self.objects.len() + self.groups.len()
    }

    /// The key or group with which the page ends, when something follows.
    fn next(&self) -> Option<String> {
        let last = self.last.as_ref().filter(|_| self.more)?;
        Some(match last {
            Item::Group(prefix) => prefix.clone(),
            Item::Version { key, .. } => key.clone(),
        })
    }
}

fn object(
    inner: &GatewayInner,
    names: NameEncoding,
    with_owner: bool,
    found: ListedVersion,
) -> Object {
    let ListedVersion { key, version, attributes, .. } = found;
    let checksum = attributes.checksum.as_ref();
    Object {
        checksum_algorithm: checksum
            .map(|sum| vec![ChecksumAlgorithm::from_static(sums::name(sum.kind))]),
        checksum_type: checksum.map(|sum| sums::checksum_type(sum.composite)),
        e_tag: Some(etag(&attributes.etag)),
        key: Some(names.out(&key)),
        last_modified: Some(timestamp(version.modified_ms)),
        owner: with_owner.then(|| owner(inner, &attributes.owner)),
        restore_status: None,
        size: Some(signed(version.size)),
        storage_class: Some(class(&attributes).map_or(
            ObjectStorageClass::from_static(ObjectStorageClass::STANDARD),
            ObjectStorageClass::from,
        )),
    }
}

fn class(attributes: &Attributes) -> Option<String> {
    (!attributes.storage_class.is_empty()).then(|| attributes.storage_class.clone())
}

/// Listing without order is what this store has no use for; it must only not contradict itself.
fn check_unordered(origin: &RequestOrigin, delimiter: Option<&str>) -> S3Result<()> {
    if delimiter.is_some() && origin.query("allow-unordered").is_some_and(|value| value == "true") {
        return Err(s3_error!(InvalidArgument, "A listing without order has no groups"));
    }
    Ok(())
}

/// The protocol library takes every version but the second for the first.
fn check_version(origin: &RequestOrigin) -> S3Result<()> {
    match origin.query("list-type").as_deref() {
        None | Some("" | "1") => Ok(()),
        Some(other) => {
            let text = "Invalid List Type specified in Request";
            Err(invalid_argument(text, "list-type", other))
        }
    }
}

pub(crate) async fn list_objects(
    inner: &GatewayInner,
    mut request: S3Request<ListObjectsInput>,
) -> Answer<ListObjectsOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    check_version(&origin)?;
    let names = NameEncoding::of(input.encoding_type.as_ref())?;
    let max = limit(input.max_keys, "max-keys")?;
    let delimiter = non_empty(input.delimiter);
    check_unordered(&origin, delimiter.as_deref())?;
    let marker = input.marker.unwrap_or_default();
    let query = ListQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: delimiter.clone().unwrap_or_default(),
        after: if marker.is_empty() { Marker::Start } else { Marker::Key(marker.clone()) },
        limit: usize::try_from(max).unwrap_or(0),
        versions: false,
    };
    let sorted = SortedPage::of(page(inner, &view, query).await?)?;
    let next = sorted.next();
    answer(ListObjectsOutput {
        name: Some(input.bucket),
        // Clients of the first version do not decode it.
        prefix: Some(input.prefix.unwrap_or_default()),
        marker: Some(names.out(&marker)),
        max_keys: Some(max),
        is_truncated: Some(sorted.more),
        contents: Some(
            sorted.objects.into_iter().map(|found| object(inner, names, true, found)).collect(),
        ),
        common_prefixes: names.prefixes(sorted.groups),
        delimiter: delimiter.map(|delimiter| names.out(&delimiter)),
        next_marker: next.map(|next| names.out(&next)),
        encoding_type: input.encoding_type,
        request_charged: None,
    })
}

pub(crate) async fn list_objects_v2(
    inner: &GatewayInner,
    mut request: S3Request<ListObjectsV2Input>,
) -> Answer<ListObjectsV2Output> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let names = NameEncoding::of(input.encoding_type.as_ref())?;
    let max = limit(input.max_keys, "max-keys")?;
    let delimiter = non_empty(input.delimiter);
    check_unordered(&origin, delimiter.as_deref())?;
    let token = input
        .continuation_token
        .as_deref()
        .filter(|token| !token.is_empty())
        .map(key_of_token)
        .transpose()?;
    let after = token.or(non_empty(input.start_after.clone()));
    let query = ListQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: delimiter.clone().unwrap_or_default(),
        after: after.map_or(Marker::Start, Marker::Key),
        limit: usize::try_from(max).unwrap_or(0),
        versions: false,
    };
    let sorted = SortedPage::of(page(inner, &view, query).await?)?;
    let next = sorted.next();
    let with_owner = input.fetch_owner == Some(true);
    answer(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(names.out(&input.prefix.unwrap_or_default())),
        max_keys: Some(max),
        key_count: i32::try_from(sorted.len()).ok(),
        continuation_token: input.continuation_token,
        is_truncated: Some(sorted.more),
        contents: Some(
            sorted
                .objects
                .into_iter()
                .map(|found| object(inner, names, with_owner, found))
                .collect(),
        ),
        common_prefixes: names.prefixes(sorted.groups),
        delimiter: delimiter.map(|delimiter| names.out(&delimiter)),
        next_continuation_token: next.map(|next| BASE64_URL_SAFE_NO_PAD.encode(next)),
        encoding_type: input.encoding_type,
        start_after: input.start_after.map(|after| names.out(&after)),
        request_charged: None,
    })
}

fn key_of_token(token: &str) -> S3Result<String> {
    let key =
        BASE64_URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    key.ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

pub(crate) async fn list_object_versions(
    inner: &GatewayInner,
    request: S3Request<ListObjectVersionsInput>,
) -> Answer<ListObjectVersionsOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let names = NameEncoding::of(input.encoding_type.as_ref())?;
    if let Some(asked) = input.max_keys.filter(|asked| *asked < 0) {
        let text = "max-keys cannot be negative";
        return Err(invalid_argument(text, "maxKeys", &asked.to_string()));
    }
    let max = limit(input.max_keys, "max-keys")?;
    let delimiter = non_empty(input.delimiter);
    let query = ListQuery {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: delimiter.clone().unwrap_or_default(),
        after: version_marker(
            inner,
            &view,
            non_empty(input.key_marker.clone()),
            non_empty(input.version_id_marker.clone()),
        )
        .await?,
        limit: usize::try_from(max).unwrap_or(0),
        versions: true,
    };
    let sorted = SortedPage::of(page(inner, &view, query).await?)?;
    let next = sorted.next();
    let next_version = match &sorted.last {
        Some(Item::Version { version, .. }) if sorted.more => Some(version.id()),
        _ => None,
    };
    let (mut versions, mut markers) = (Vec::new(), Vec::new());
    for found in sorted.objects {
        if found.version.marker {
            markers.push(marker_entry(inner, names, found));
        } else {
            versions.push(version_entry(inner, names, found));
        }
    }
    answer(ListObjectVersionsOutput {
        common_prefixes: names.prefixes(sorted.groups),
        delete_markers: (!markers.is_empty()).then_some(markers),
        delimiter: delimiter.map(|delimiter| names.out(&delimiter)),
        encoding_type: input.encoding_type,
        is_truncated: Some(sorted.more),
        key_marker: Some(names.out(&input.key_marker.unwrap_or_default())),
        max_keys: Some(max),
        name: Some(input.bucket),
        next_key_marker: next.map(|next| names.out(&next)),
        next_version_id_marker: next_version,
        prefix: Some(names.out(&input.prefix.unwrap_or_default())),
        request_charged: None,
        version_id_marker: Some(input.version_id_marker.unwrap_or_default()),
        versions: (!versions.is_empty()).then_some(versions),
    })
}

async fn version_marker(
    inner: &GatewayInner,
    view: &BucketView,
    key: Option<String>,
    version: Option<String>,
) -> S3Result<Marker> {
    let Some(key) = key else {
        return if version.is_some() {
            Err(s3_error!(
                InvalidArgument,
                "A version-id marker cannot be specified without a key marker."
            ))
        } else {
            Ok(Marker::Start)
        };
    };
    let order = match crate::identity::access::selected(&version)? {
        Select::Newest => None,
        Select::Order(order) => Some(order),
        Select::Null => inner
            .still(view, inner.store.find(view.id(), &key, Select::Null).await)
            .await?
            .map(|found| found.version.order),
    };
    Ok(match order {
        Some(order) => Marker::Version(key, order),
        None => Marker::Key(key),
    })
}

fn marker_entry(
    inner: &GatewayInner,
    names: NameEncoding,
    found: ListedVersion,
) -> DeleteMarkerEntry {
    let ListedVersion { key, newest, version, attributes } = found;
    DeleteMarkerEntry {
        is_latest: Some(newest),
        key: Some(names.out(&key)),
        last_modified: Some(timestamp(version.modified_ms)),
        owner: Some(owner(inner, &attributes.owner)),
        version_id: Some(version.id()),
    }
}

fn version_entry(inner: &GatewayInner, names: NameEncoding, found: ListedVersion) -> ObjectVersion {
    let (newest, id) = (found.newest, found.version.id());
    let class = class(&found.attributes).map_or(
        ObjectVersionStorageClass::from_static(ObjectVersionStorageClass::STANDARD),
        ObjectVersionStorageClass::from,
    );
    let object: dto::Object = object(inner, names, true, found);
    ObjectVersion {
        checksum_algorithm: object.checksum_algorithm,
        checksum_type: object.checksum_type,
        e_tag: object.e_tag,
        is_latest: Some(newest),
        key: object.key,
        last_modified: object.last_modified,
        owner: object.owner,
        restore_status: None,
        size: object.size,
        storage_class: Some(class),
        version_id: Some(id),
    }
}
