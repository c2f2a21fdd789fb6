//! What can be changed about an object without writing it again: tags, list, retention, legal hold.

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Result, s3_error};
use varve_object::rules;
use varve_object::{Attributes, NewBody, Select};

use super::{Answer, RequestOrigin, answer, found, version_id};
use crate::answers::error::of_store;
use crate::bucket::view::BucketView;
use crate::clock::{now_ms, timestamp};
use crate::gateway::GatewayInner;
use crate::identity::access::selected;
use crate::identity::acl::{self, AclHeaders};
use crate::request::given::{asked_acl, hold, require_lock, retention};
use crate::request::query::{tag_set, tags_of_set};

/// Most tags of an object.
const TAGS_MAX: usize = 10;

/// Changes attributes of a version in place.
async fn edit(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    select: Select,
    change: impl FnOnce(&mut Attributes) -> varve_object::Result<()> + Send + 'static,
) -> S3Result<()> {
    let named = key.to_owned();
    let empty = NewBody::Small(bytes::Bytes::new());
    let decide = Box::new(move |view: &varve_object::KeyView| rules::edit(view, &named, change));
    inner
        .store
        .change_key(view.id(), key, Some(select), empty, decide)
        .await
        .map(drop)
        .map_err(of_store)
}

pub(crate) async fn get_tagging(
    inner: &GatewayInner,
    request: S3Request<GetObjectTaggingInput>,
) -> Answer<GetObjectTaggingOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (found, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    answer(GetObjectTaggingOutput {
        tag_set: tag_set(&attributes.tags),
        version_id: version_id(&view, &found.version),
    })
}

pub(crate) async fn put_tagging(
    inner: &GatewayInner,
    request: S3Request<PutObjectTaggingInput>,
) -> Answer<PutObjectTaggingOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let select = selected(&input.version_id)?;
    let tags = tags_of_set(&input.tagging.tag_set, TAGS_MAX)?;
    let (found, _) = found(inner, &view, &input.key, select).await?;
    edit(inner, &view, &input.key, Select::Order(found.version.order), move |attributes| {
        attributes.tags = tags;
        Ok(())
    })
    .await?;
    answer(PutObjectTaggingOutput { version_id: version_id(&view, &found.version) })
}

pub(crate) async fn delete_tagging(
    inner: &GatewayInner,
    request: S3Request<DeleteObjectTaggingInput>,
) -> Answer<DeleteObjectTaggingOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (found, _) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    edit(inner, &view, &input.key, Select::Order(found.version.order), |attributes| {
        attributes.tags.clear();
        Ok(())
    })
    .await?;
    answer(DeleteObjectTaggingOutput { version_id: version_id(&view, &found.version) })
}

pub(crate) async fn get_acl(
    inner: &GatewayInner,
    request: S3Request<GetObjectAclInput>,
) -> Answer<GetObjectAclOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (_, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    answer(GetObjectAclOutput {
        grants: Some(acl::grants(inner, &attributes.acl)),
        owner: Some(acl::owner(inner, &attributes.owner)),
        request_charged: None,
    })
}

pub(crate) async fn put_acl(
    inner: &GatewayInner,
    mut request: S3Request<PutObjectAclInput>,
) -> Answer<PutObjectAclOutput> {
    let _origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (found, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    let headers = AclHeaders {
        canned: input.acl.as_ref().map(|acl| acl.as_str().to_owned()),
        full_control: input.grant_full_control,
        read: input.grant_read,
        read_acp: input.grant_read_acp,
        write: input.grant_write,
        write_acp: input.grant_write_acp,
    };
    let policy = input.access_control_policy.as_ref();
    let new = asked_acl(inner, &view, &headers, policy, &attributes.owner)?;
    edit(inner, &view, &input.key, Select::Order(found.version.order), move |attributes| {
        attributes.acl = new;
        Ok(())
    })
    .await?;
    answer(PutObjectAclOutput::default())
}

fn no_lock_of_object() -> S3Error {
    s3_error!(
        NoSuchObjectLockConfiguration,
        "The specified object does not have a ObjectLock configuration"
    )
}

pub(crate) async fn get_retention(
    inner: &GatewayInner,
    request: S3Request<GetObjectRetentionInput>,
) -> Answer<GetObjectRetentionOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (_, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    require_lock(&view)?;
    let retention = attributes.retention.ok_or_else(no_lock_of_object)?;
    let mode = if retention.compliance {
        ObjectLockRetentionMode::COMPLIANCE
    } else {
        ObjectLockRetentionMode::GOVERNANCE
    };
    let retention = ObjectLockRetention {
        mode: Some(ObjectLockRetentionMode::from_static(mode)),
        retain_until_date: Some(timestamp(retention.until_ms)),
    };
    answer(GetObjectRetentionOutput { retention: Some(retention) })
}

pub(crate) async fn put_retention(
    inner: &GatewayInner,
    mut request: S3Request<PutObjectRetentionInput>,
) -> Answer<PutObjectRetentionOutput> {
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    require_lock(&view)?;
    let new = match input
        .retention
        .as_ref()
        .map(|retention| (&retention.mode, &retention.retain_until_date))
    {
        None | Some((None, None)) => None,
        Some((Some(mode), Some(until))) => Some(retention(mode.as_str(), until)?),
        Some(_) => return Err(s3_error!(MalformedXML)),
    };
    let bypass = origin
        .bypasses(inner, &view, &input.key, input.bypass_governance_retention == Some(true))
        .await?;
    let (found, _) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    let key = input.key.clone();
    edit(inner, &view, &input.key, Select::Order(found.version.order), move |attributes| {
        rules::retain(attributes, &key, new, now_ms(), bypass)
    })
    .await?;
    answer(PutObjectRetentionOutput::default())
}

pub(crate) async fn get_hold(
    inner: &GatewayInner,
    request: S3Request<GetObjectLegalHoldInput>,
) -> Answer<GetObjectLegalHoldOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let (_, attributes) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    require_lock(&view)?;
    let on = attributes.legal_hold.ok_or_else(no_lock_of_object)?;
    let status = if on { ObjectLockLegalHoldStatus::ON } else { ObjectLockLegalHoldStatus::OFF };
    let hold = ObjectLockLegalHold { status: Some(ObjectLockLegalHoldStatus::from_static(status)) };
    answer(GetObjectLegalHoldOutput { legal_hold: Some(hold) })
}

pub(crate) async fn put_hold(
    inner: &GatewayInner,
    request: S3Request<PutObjectLegalHoldInput>,
) -> Answer<PutObjectLegalHoldOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let status =
        input.legal_hold.and_then(|hold| hold.status).ok_or_else(|| s3_error!(MalformedXML))?;
    let on = hold(status.as_str())?;
    require_lock(&view)?;
    let (found, _) = found(inner, &view, &input.key, selected(&input.version_id)?).await?;
    edit(inner, &view, &input.key, Select::Order(found.version.order), move |attributes| {
        attributes.legal_hold = Some(on);
        Ok(())
    })
    .await?;
    answer(PutObjectLegalHoldOutput::default())
}
