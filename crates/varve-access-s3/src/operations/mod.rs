//! The operations of the protocol, a file for each family, and what they share.

pub(crate) mod attributes;
pub(crate) mod bucket;
pub(crate) mod config;
pub(crate) mod copy;
pub(crate) mod delete;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod multipart;
pub(crate) mod object_config;
pub(crate) mod operation;
pub(crate) mod put;
pub(crate) mod service;
pub(crate) mod unset;
pub(crate) mod website;

use hyper::HeaderMap;
use s3s::dto::{ETag, ETagCondition, Timestamp};
use s3s::{S3Request, S3Response, S3Result, s3_error};
use varve_object::rules::{Conditions, Tags};
use varve_object::{Attributes, FoundVersion, Select, Version, Versioning};

use crate::answers::error::{no_key, of_store};
use crate::bucket::view::BucketView;
use crate::clock::ms_of;
use crate::gateway::GatewayInner;
use crate::identity::access::{Context, RequestTarget, authorize};
use crate::identity::principal::{Peer, Principal};

/// What operations answer.
pub(crate) type Answer<T> = S3Result<S3Response<T>>;

/// An answer without anything special.
pub(crate) fn answer<T>(output: T) -> Answer<T> {
    Ok(S3Response::new(output))
}

/// Who sent a request, where from, and its headers: for checks that the operation makes itself.
pub(crate) struct RequestOrigin {
    pub(crate) caller: Principal,
    headers: HeaderMap,
    query: String,
    peer: Option<Peer>,
}

impl RequestOrigin {
    /// Of a request that is none of the protocol library's.
    pub(crate) fn new(caller: Principal, headers: HeaderMap, peer: Option<Peer>) -> Self {
        Self { caller, headers, query: String::new(), peer }
    }

    /// Takes them out of the request.
    pub(crate) fn of<T>(request: &mut S3Request<T>) -> Self {
        Self {
            caller: request.extensions.get::<Principal>().cloned().unwrap_or_default(),
            headers: std::mem::take(&mut request.headers),
            query: request.uri.query().unwrap_or_default().to_owned(),
            peer: request.extensions.get::<Peer>().copied(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A value of the query string.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        crate::request::query::query_value(&self.query, name)
    }

    /// Where a client that sent this finds an object.
    pub(crate) fn location(&self, inner: &GatewayInner, bucket: &str, key: &str) -> String {
        let host = self.header("host").unwrap_or_default();
        let scheme = if self.peer.is_some_and(|peer| peer.tls) { "https" } else { "http" };
        let key = crate::request::query::encode(key);
        let path = match inner.domains.bucket_of(host) {
            Some(_) => format!("/{key}"),
            None => format!("/{bucket}/{key}"),
        };
        if host.is_empty() { path } else { format!("{scheme}://{host}{path}") }
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) async fn authorize(
        &self,
        inner: &GatewayInner,
        target: RequestTarget<'_>,
        action: &str,
    ) -> S3Result<()> {
        let context = Context {
            headers: &self.headers,
            query: &self.query,
            peer: self.peer,
            presigned: self.caller.presigned,
            signature_v2: self.caller.signature_v2,
        };
        authorize(inner, &self.caller, &context, target, action).await
    }

    /// Whether the caller wants to get past retention, and may.
    pub(crate) async fn bypasses(
        &self,
        inner: &GatewayInner,
        view: &BucketView,
        key: &str,
        wanted: bool,
    ) -> S3Result<bool> {
        if !wanted {
            return Ok(false);
        }
        let target = RequestTarget { view, key: Some(key), select: Select::Newest };
        self.authorize(inner, target, "s3:BypassGovernanceRetention").await.map(|()| true)
    }
}

/// An object by key and version, or why there is none.
pub(crate) async fn found(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    select: Select,
) -> S3Result<(FoundVersion, Attributes)> {
    let found = inner.still(view, inner.store.find(view.id(), key, select).await).await?;
    let Some(found) = found else {
        return Err(if select == Select::Newest {
            no_key(None)
        } else {
            s3_error!(NoSuchVersion, "The specified version does not exist.")
        });
    };
    if found.version.marker {
        return Err(if select == Select::Newest {
            no_key(Some(&found.version))
        } else {
            of_store(varve_object::Error::IsMarker { key: key.to_owned(), marker: found.version })
        });
    }
    let attributes = Attributes::decode(&found.version.attributes).map_err(of_store)?;
    Ok((found, attributes))
}

/// Id of a version for an answer: buckets that never had versions do not tell any.
pub(crate) fn version_id(view: &BucketView, version: &Version) -> Option<String> {
    (view.settings.versioning != Versioning::Off).then(|| version.id())
}

/// Id of a version just made: only where each has one of its own.
pub(crate) fn new_version_id(view: &BucketView, version: &Version) -> Option<String> {
    (view.settings.versioning == Versioning::Enabled).then(|| version.id())
}

/// Conditions of a request that changes something.
pub(crate) fn conditions(
    if_match: Option<&ETagCondition>,
    if_none_match: Option<&ETagCondition>,
) -> Conditions {
    let tags = |condition: &ETagCondition| match condition.as_etag() {
        None => Tags::Any,
        Some(tag) => Tags::OneOf(vec![tag.value().to_owned()]),
    };
    Conditions {
        matches: if_match.map(tags),
        none_matches: if_none_match.map(tags),
        ..Conditions::default()
    }
}

/// Conditions of a request that reads.
#[derive(Default)]
pub(crate) struct ReadConditions<'a> {
    pub(crate) if_match: Option<&'a ETagCondition>,
    pub(crate) if_none_match: Option<&'a ETagCondition>,
    pub(crate) modified_since: Option<&'a Timestamp>,
    pub(crate) unmodified_since: Option<&'a Timestamp>,
}

/// Which way a condition fails.
pub(crate) enum ConditionFailure {
    /// Something else is there.
    Changed,
    /// The client has what is there.
    Known,
}

impl ReadConditions<'_> {
    /// Entity tags outweigh times; times count in seconds.
    pub(crate) fn check(&self, version: &Version, etag: &str) -> Result<(), ConditionFailure> {
        let has =
            |condition: &ETagCondition| condition.as_etag().is_none_or(|tag| tag.value() == etag);
        let second = version.modified_ms / 1000;
        let seconds = |time: &Timestamp| ms_of(time) / 1000;
        match (self.if_match, self.unmodified_since) {
            (Some(condition), _) if !has(condition) => return Err(ConditionFailure::Changed),
            (None, Some(time)) if second > seconds(time) => return Err(ConditionFailure::Changed),
            _ => {}
        }
        match (self.if_none_match, self.modified_since) {
            (Some(condition), _) if has(condition) => Err(ConditionFailure::Known),
            (None, Some(time)) if second <= seconds(time) => Err(ConditionFailure::Known),
            _ => Ok(()),
        }
    }
}

/// An entity tag for an answer.
pub(crate) fn etag(text: &str) -> ETag {
    ETag::Strong(text.to_owned())
}

/// A length as the protocol has it.
pub(crate) fn signed(len: u64) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
