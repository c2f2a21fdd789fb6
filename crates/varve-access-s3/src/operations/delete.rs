//! Deleting objects and versions, one or many.

use std::sync::{Arc, OnceLock};

use futures_util::StreamExt;
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject,
    ObjectIdentifier,
};
use s3s::{S3Request, S3Result, s3_error};
use varve_object::rules::{self, Conditions};
use varve_object::{NewBody, Select};

use super::{Answer, RequestOrigin, answer, conditions};
use crate::answers::error::of_store;
use crate::bucket::view::BucketView;
use crate::clock::{ms_of, now_ms};
use crate::gateway::GatewayInner;
use crate::identity::access::{RequestTarget, selected};
use crate::request::given::owner_of;

/// Most keys of one request.
const KEYS_MAX: usize = 1000;
/// Keys of a request that are deleted at a time.
const AT_ONCE: usize = 16;

/// What became of a key.
#[derive(Default)]
struct KeyOutcome {
    /// A delete marker was made, or the version deleted was one.
    marker: bool,
    /// The version made or deleted.
    version: Option<String>,
}

/// What is to be deleted.
struct DeletionRequest {
    key: String,
    version: Option<String>,
    bypass: bool,
    conditions: Conditions,
}

pub(crate) async fn delete_object(
    inner: &GatewayInner,
    mut request: S3Request<DeleteObjectInput>,
) -> Answer<DeleteObjectOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let bypass = origin
        .bypasses(inner, &view, &input.key, input.bypass_governance_retention == Some(true))
        .await?;
    let conditions = Conditions {
        modified_s: input.if_match_last_modified_time.as_ref().map(|time| ms_of(time) / 1000),
        size: input.if_match_size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
        ..conditions(input.if_match.as_ref(), None)
    };
    let request = DeletionRequest {
        key: input.key,
        version: input.version_id.filter(|id| !id.is_empty()),
        bypass,
        conditions,
    };
    let deleted = delete(inner, &view, &origin, request).await?;
    answer(DeleteObjectOutput {
        delete_marker: deleted.marker.then_some(true),
        request_charged: None,
        version_id: deleted.version,
    })
}

pub(crate) async fn delete_objects(
    inner: &GatewayInner,
    mut request: S3Request<DeleteObjectsInput>,
) -> Answer<DeleteObjectsOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    if input.delete.objects.is_empty() || input.delete.objects.len() > KEYS_MAX {
        return Err(s3_error!(MalformedXML));
    }
    let quiet = input.delete.quiet == Some(true);
    let bypass = input.bypass_governance_retention == Some(true);
    let (view, origin) = (&view, &origin);
    let outcomes = futures_util::stream::iter(input.delete.objects)
        .map(|object| async move {
            let outcome = delete_one(inner, view, origin, &object, bypass).await;
            (object, outcome)
        })
        .buffered(AT_ONCE);
    let outcomes: Vec<_> = outcomes.collect().await;
    let (mut deleted, mut errors) = (Vec::new(), Vec::new());
    for (object, outcome) in outcomes {
        match outcome {
            Ok(_) if quiet => {}
            Ok(outcome) => deleted.push(entry(object, outcome)),
            Err(error) => errors.push(s3s::dto::Error {
                code: Some(error.code().as_str().to_owned()),
                key: Some(object.key),
                message: error.message().map(str::to_owned),
                version_id: object.version_id,
            }),
        }
    }
    answer(DeleteObjectsOutput {
        deleted: (!deleted.is_empty()).then_some(deleted),
        errors: (!errors.is_empty()).then_some(errors),
        request_charged: None,
    })
}

fn entry(object: ObjectIdentifier, outcome: KeyOutcome) -> DeletedObject {
    DeletedObject {
        delete_marker: outcome.marker.then_some(true),
        delete_marker_version_id: outcome.marker.then_some(outcome.version).flatten(),
        key: Some(object.key),
        version_id: object.version_id,
    }
}

async fn delete_one(
    inner: &GatewayInner,
    view: &BucketView,
    origin: &RequestOrigin,
    object: &ObjectIdentifier,
    bypass: bool,
) -> S3Result<KeyOutcome> {
    let version = object.version_id.clone().filter(|id| !id.is_empty());
    let select = selected(&version)?;
    let action = if version.is_some() { "s3:DeleteObjectVersion" } else { "s3:DeleteObject" };
    origin.authorize(inner, RequestTarget { view, key: Some(&object.key), select }, action).await?;
    let bypass = origin.bypasses(inner, view, &object.key, bypass).await?;
    let conditions = Conditions {
        modified_s: object.last_modified_time.as_ref().map(|time| ms_of(time) / 1000),
        size: object.size.map(|size| u64::try_from(size).unwrap_or(u64::MAX)),
        matches: object.e_tag.as_ref().map(|tag| match tag.value() {
            "*" => rules::Tags::Any,
            tag => rules::Tags::OneOf(vec![tag.to_owned()]),
        }),
        none_matches: None,
    };
    delete(
        inner,
        view,
        origin,
        DeletionRequest { key: object.key.clone(), version, bypass, conditions },
    )
    .await
}

async fn delete(
    inner: &GatewayInner,
    view: &BucketView,
    origin: &RequestOrigin,
    request: DeletionRequest,
) -> S3Result<KeyOutcome> {
    super::put::check_key(&request.key)?;
    let select = selected(&request.version)?;
    let named = request.version.is_some();
    let delete = rules::ObjectDeletion {
        key: request.key.clone(),
        versioning: view.settings.versioning,
        now_ms: now_ms(),
        named,
        bypass: request.bypass,
        owner: owner_of(view, &origin.caller),
        conditions: request.conditions,
    };
    let was_marker = Arc::new(OnceLock::new());
    let seen = Arc::clone(&was_marker);
    let decide = Box::new(move |view: &varve_object::KeyView| {
        let _ = seen.set(view.named.as_ref().is_some_and(|version| version.marker));
        rules::delete(view, delete)
    });
    let select = if named { Some(select) } else { None::<Select> };
    let empty = NewBody::Small(bytes::Bytes::new());
    let change = inner
        .store
        .change_key(view.id(), &request.key, select, empty, decide)
        .await
        .map_err(of_store)?;
    if named {
        let marker = was_marker.get().copied().unwrap_or(false);
        return Ok(KeyOutcome { marker, version: request.version });
    }
    Ok(match change.put {
        Some(marker) => KeyOutcome { marker: true, version: Some(marker.id()) },
        None => KeyOutcome::default(),
    })
}
