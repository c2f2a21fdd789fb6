//! Configurations of buckets: what clients put is checked, kept as they wrote it, and given back.

use std::cell::RefCell;

use bytes::Bytes;
use s3s::dto::*;
use s3s::{S3Request, S3Result, s3_error};
use varve_object::{Document, Versioning};

use super::{Answer, RequestOrigin, answer};
use crate::answers::error::{invalid_argument, named, of_store};
use crate::bucket::cors::is_of_name;
use crate::bucket::lifecycle;
use crate::bucket::view::{PublicAccess, to_xml};
use crate::gateway::GatewayInner;
use crate::identity::acl::{self, AclHeaders};
use crate::identity::policy::Policy;
use crate::request::given::asked_acl;
use crate::request::query::{tag_set, tags_of_set};

/// Longest document, in bytes.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 64 << 10;
/// Most tags of a bucket.
const BUCKET_TAGS_MAX: usize = 50;
/// Most rules of a CORS configuration.
const CORS_RULES_MAX: usize = 100;
/// Least sizes of objects that lifecycle rules move, by name; the first is the default.
const SIZES_MIN: [&str; 2] = ["all_storage_classes_128K", "varies_by_storage_class"];
/// Longest default retention, in days.
const RETENTION_DAYS_MAX: i32 = 36_500;

pub(crate) async fn put(
    inner: &GatewayInner,
    bucket: &str,
    kind: Document,
    text: Bytes,
) -> S3Result<()> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(s3_error!(EntityTooLarge));
    }
    inner
        .change(bucket, move |settings| {
            settings.documents.insert(kind, text);
            Ok(())
        })
        .await
}

pub(crate) async fn remove(inner: &GatewayInner, bucket: &str, kind: Document) -> S3Result<()> {
    inner
        .change(bucket, move |settings| {
            settings.documents.remove(&kind);
            Ok(())
        })
        .await
}

async fn get<T: for<'xml> s3s::xml::Deserialize<'xml>>(
    inner: &GatewayInner,
    bucket: &str,
    kind: Document,
) -> S3Result<Option<T>> {
    inner.view(bucket).await?.document(kind).map_err(crate::answers::error::of_store)
}

pub(crate) async fn get_cors(
    inner: &GatewayInner,
    request: S3Request<GetBucketCorsInput>,
) -> Answer<GetBucketCorsOutput> {
    let found: Option<CORSConfiguration> =
        get(inner, &request.input.bucket, Document::Cors).await?;
    let found = found.ok_or_else(|| {
        s3_error!(NoSuchCORSConfiguration, "The CORS configuration does not exist")
    })?;
    answer(GetBucketCorsOutput { cors_rules: Some(found.cors_rules) })
}

pub(crate) async fn put_cors(
    inner: &GatewayInner,
    request: S3Request<PutBucketCorsInput>,
) -> Answer<PutBucketCorsOutput> {
    let rules = &request.input.cors_configuration.cors_rules;
    if rules.is_empty() || rules.len() > CORS_RULES_MAX {
        return Err(s3_error!(MalformedXML));
    }
    for rule in rules {
        let known = ["GET", "PUT", "HEAD", "POST", "DELETE"];
        if rule.allowed_methods.is_empty()
            || rule.allowed_methods.iter().any(|method| !known.contains(&method.as_str()))
        {
            let bad = rule.allowed_methods.iter().find(|method| !known.contains(&method.as_str()));
            return Err(s3_error!(
                InvalidRequest,
                "Found unsupported HTTP method in CORS config. Unsupported method is {}",
                bad.map_or("", String::as_str)
            ));
        }
        for origin in &rule.allowed_origins {
            if origin.matches('*').count() > 1 {
                let text = "can not have more than one wildcard.";
                return Err(s3_error!(InvalidRequest, "AllowedOrigin \"{origin}\" {text}"));
            }
        }
        let names =
            rule.allowed_headers.iter().flatten().chain(rule.expose_headers.iter().flatten());
        if let Some(header) = names.into_iter().find(|name| !name.bytes().all(is_of_name)) {
            let text = "contains invalid character.";
            return Err(s3_error!(InvalidRequest, "AllowedHeader \"{header}\" {text}"));
        }
    }
    put(inner, &request.input.bucket, Document::Cors, to_xml(&request.input.cors_configuration)?)
        .await?;
    answer(PutBucketCorsOutput {})
}

pub(crate) async fn delete_cors(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketCorsInput>,
) -> Answer<DeleteBucketCorsOutput> {
    remove(inner, &request.input.bucket, Document::Cors).await?;
    answer(DeleteBucketCorsOutput {})
}

pub(crate) async fn get_encryption(
    inner: &GatewayInner,
    request: S3Request<GetBucketEncryptionInput>,
) -> Answer<GetBucketEncryptionOutput> {
    let found: Option<ServerSideEncryptionConfiguration> =
        get(inner, &request.input.bucket, Document::Encryption).await?;
    let found = found.ok_or_else(|| {
        named(
            "ServerSideEncryptionConfigurationNotFoundError",
            hyper::StatusCode::NOT_FOUND,
            "The server side encryption configuration was not found",
        )
    })?;
    answer(GetBucketEncryptionOutput { server_side_encryption_configuration: Some(found) })
}

pub(crate) async fn put_encryption(
    inner: &GatewayInner,
    request: S3Request<PutBucketEncryptionInput>,
) -> Answer<PutBucketEncryptionOutput> {
    let configuration = request.input.server_side_encryption_configuration;
    let [rule] = configuration.rules.as_slice() else { return Err(s3_error!(MalformedXML)) };
    let default = rule
        .apply_server_side_encryption_by_default
        .as_ref()
        .ok_or_else(|| s3_error!(MalformedXML))?;
    match default.sse_algorithm.as_str() {
        ServerSideEncryption::AES256 if default.kms_master_key_id.is_none() => {}
        ServerSideEncryption::AWS_KMS => {}
        _ => {
            return Err(s3_error!(
                InvalidRequest,
                "The encryption method specified is not supported"
            ));
        }
    }
    put(inner, &request.input.bucket, Document::Encryption, to_xml(&configuration)?).await?;
    answer(PutBucketEncryptionOutput {})
}

pub(crate) async fn delete_encryption(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketEncryptionInput>,
) -> Answer<DeleteBucketEncryptionOutput> {
    remove(inner, &request.input.bucket, Document::Encryption).await?;
    answer(DeleteBucketEncryptionOutput {})
}

pub(crate) async fn get_lifecycle(
    inner: &GatewayInner,
    request: S3Request<GetBucketLifecycleConfigurationInput>,
) -> Answer<GetBucketLifecycleConfigurationOutput> {
    let found: Option<BucketLifecycleConfiguration> =
        get(inner, &request.input.bucket, Document::Lifecycle).await?;
    let found = found.ok_or_else(|| {
        s3_error!(NoSuchLifecycleConfiguration, "The lifecycle configuration does not exist")
    })?;
    let view = inner.view(&request.input.bucket).await?;
    let stored = view.settings.documents.get(&Document::Lifecycle);
    let stored = stored.map(|text| String::from_utf8_lossy(text));
    let least = SIZES_MIN
        .iter()
        .rev()
        .find(|size| stored.as_ref().is_some_and(|text| text.ends_with(&format!("<!--{size}-->"))));
    answer(GetBucketLifecycleConfigurationOutput {
        rules: Some(found.rules),
        transition_default_minimum_object_size: Some(
            TransitionDefaultMinimumObjectSize::from_static(least.unwrap_or(&SIZES_MIN[0])),
        ),
    })
}

pub(crate) async fn put_lifecycle(
    inner: &GatewayInner,
    request: S3Request<PutBucketLifecycleConfigurationInput>,
) -> Answer<PutBucketLifecycleConfigurationOutput> {
    let mut configuration =
        request.input.lifecycle_configuration.ok_or_else(|| s3_error!(MalformedXML))?;
    lifecycle::check(&mut configuration)?;
    let asked = request.input.transition_default_minimum_object_size;
    let asked = asked.as_ref().map_or(SIZES_MIN[0], |size| size.as_str());
    let least = SIZES_MIN.iter().find(|known| **known == asked).ok_or_else(|| {
        let text = "This size is not known";
        invalid_argument(text, "x-amz-transition-default-minimum-object-size", asked)
    })?;
    // Nothing is ever moved to another storage class, so it is kept for the client alone: behind the document, where
    // none of its readers looks.
    let mut document = to_xml(&configuration)?.to_vec();
    document.extend_from_slice(format!("<!--{least}-->").as_bytes());
    put(inner, &request.input.bucket, Document::Lifecycle, Bytes::from(document)).await?;
    answer(PutBucketLifecycleConfigurationOutput {
        transition_default_minimum_object_size: Some(
            TransitionDefaultMinimumObjectSize::from_static(least),
        ),
    })
}

pub(crate) async fn delete_lifecycle(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketLifecycleInput>,
) -> Answer<DeleteBucketLifecycleOutput> {
    remove(inner, &request.input.bucket, Document::Lifecycle).await?;
    answer(DeleteBucketLifecycleOutput {})
}

pub(crate) async fn get_policy(
    inner: &GatewayInner,
    request: S3Request<GetBucketPolicyInput>,
) -> Answer<GetBucketPolicyOutput> {
    let view = inner.view(&request.input.bucket).await?;
    let text = view.settings.documents.get(&Document::Policy);
    let text =
        text.ok_or_else(|| s3_error!(NoSuchBucketPolicy, "The bucket policy does not exist"))?;
    answer(GetBucketPolicyOutput { policy: Some(String::from_utf8_lossy(text).into_owned()) })
}

pub(crate) async fn put_policy(
    inner: &GatewayInner,
    request: S3Request<PutBucketPolicyInput>,
) -> Answer<PutBucketPolicyOutput> {
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let policy = checked_policy(inner, &input)?;
    if view.public_access.block_policy && policy.is_public() {
        return Err(s3_error!(AccessDenied, "Public policies are blocked"));
    }
    put(inner, &input.bucket, Document::Policy, Bytes::from(input.policy)).await?;
    answer(PutBucketPolicyOutput {})
}

/// A policy whose principals there are.
fn checked_policy(inner: &GatewayInner, input: &PutBucketPolicyInput) -> S3Result<Policy> {
    let unread = RefCell::new(None);
    let is_known = |id: &str| {
        let known = inner.users.known(id);
        known.map(|known| known.is_some()).unwrap_or_else(|error| {
            unread.replace(Some(error));
            false
        })
    };
    let is_user = |id: &str| id.ends_with(":root") || is_known(id);
    let policy = Policy::parse_for_bucket(input.policy.as_bytes(), &input.bucket);
    let checked = policy.and_then(|policy| policy.check(is_user).map(|()| policy));
    match (checked, unread.into_inner()) {
        (Ok(policy), _) => Ok(policy),
        (Err(_), Some(error)) => Err(of_store(error)),
        (Err(what), None) => Err(s3_error!(MalformedPolicy, "{what}")),
    }
}

pub(crate) async fn delete_policy(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketPolicyInput>,
) -> Answer<DeleteBucketPolicyOutput> {
    remove(inner, &request.input.bucket, Document::Policy).await?;
    answer(DeleteBucketPolicyOutput {})
}

pub(crate) async fn policy_status(
    inner: &GatewayInner,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> Answer<GetBucketPolicyStatusOutput> {
    let view = inner.view(&request.input.bucket).await?;
    let by_policy = view.policy.as_ref().is_some_and(Policy::is_public);
    let by_list = view.settings.acl.is_public() && !view.public_access.ignore_acls;
    answer(GetBucketPolicyStatusOutput {
        policy_status: Some(PolicyStatus { is_public: Some(by_policy || by_list) }),
    })
}

pub(crate) async fn get_tagging(
    inner: &GatewayInner,
    request: S3Request<GetBucketTaggingInput>,
) -> Answer<GetBucketTaggingOutput> {
    let found: Option<Tagging> = get(inner, &request.input.bucket, Document::Tagging).await?;
    let found = found.ok_or_else(|| s3_error!(NoSuchTagSet, "The TagSet does not exist"))?;
    answer(GetBucketTaggingOutput { tag_set: found.tag_set })
}

pub(crate) async fn put_tagging(
    inner: &GatewayInner,
    request: S3Request<PutBucketTaggingInput>,
) -> Answer<PutBucketTaggingOutput> {
    let document = bucket_tags(&request.input.tagging.tag_set)?;
    put(inner, &request.input.bucket, Document::Tagging, document).await?;
    answer(PutBucketTaggingOutput {})
}

/// Tags of a bucket as they are stored.
pub(crate) fn bucket_tags(tags: &[Tag]) -> S3Result<Bytes> {
    if tags.len() > BUCKET_TAGS_MAX {
        let text = "Bucket tag count cannot be greater than 50";
        return Err(named("BadRequest", hyper::StatusCode::BAD_REQUEST, text));
    }
    let tags = tags_of_set(tags, BUCKET_TAGS_MAX)?;
    to_xml(&Tagging { tag_set: tag_set(&tags) })
}

pub(crate) async fn delete_tagging(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketTaggingInput>,
) -> Answer<DeleteBucketTaggingOutput> {
    remove(inner, &request.input.bucket, Document::Tagging).await?;
    answer(DeleteBucketTaggingOutput {})
}

pub(crate) async fn get_versioning(
    inner: &GatewayInner,
    request: S3Request<GetBucketVersioningInput>,
) -> Answer<GetBucketVersioningOutput> {
    let view = inner.view(&request.input.bucket).await?;
    let status = match view.settings.versioning {
        Versioning::Off => None,
        Versioning::Enabled => {
            Some(BucketVersioningStatus::from_static(BucketVersioningStatus::ENABLED))
        }
        Versioning::Suspended => {
            Some(BucketVersioningStatus::from_static(BucketVersioningStatus::SUSPENDED))
        }
    };
    answer(GetBucketVersioningOutput { status, ..GetBucketVersioningOutput::default() })
}

pub(crate) async fn put_versioning(
    inner: &GatewayInner,
    request: S3Request<PutBucketVersioningInput>,
) -> Answer<PutBucketVersioningOutput> {
    let configuration = &request.input.versioning_configuration;
    if configuration.mfa_delete.as_ref().is_some_and(|mfa| mfa.as_str() == MFADelete::ENABLED) {
        return Err(s3_error!(NotImplemented));
    }
    let versioning = match configuration.status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => return Err(s3_error!(MalformedXML)),
    };
    inner
        .change(&request.input.bucket, move |settings| {
            if settings.object_lock && versioning != Versioning::Enabled {
                return Err(varve_object::Error::State {
                    reason: "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.",
                });
            }
            settings.versioning = versioning;
            Ok(())
        })
        .await?;
    answer(PutBucketVersioningOutput {})
}

/// Rules of who owns what is put into a bucket.
pub(crate) const OWNERSHIPS: [&str; 3] = [
    ObjectOwnership::BUCKET_OWNER_ENFORCED,
    ObjectOwnership::BUCKET_OWNER_PREFERRED,
    ObjectOwnership::OBJECT_WRITER,
];

pub(crate) async fn get_ownership(
    inner: &GatewayInner,
    request: S3Request<GetBucketOwnershipControlsInput>,
) -> Answer<GetBucketOwnershipControlsOutput> {
    let found: Option<OwnershipControls> =
        get(inner, &request.input.bucket, Document::Ownership).await?;
    let missing = || {
        s3_error!(OwnershipControlsNotFoundError, "The bucket ownership controls were not found")
    };
    answer(GetBucketOwnershipControlsOutput {
        ownership_controls: Some(found.ok_or_else(missing)?),
    })
}

pub(crate) async fn put_ownership(
    inner: &GatewayInner,
    request: S3Request<PutBucketOwnershipControlsInput>,
) -> Answer<PutBucketOwnershipControlsOutput> {
    let controls = request.input.ownership_controls;
    let [rule] = controls.rules.as_slice() else { return Err(s3_error!(MalformedXML)) };
    if !OWNERSHIPS.contains(&rule.object_ownership.as_str()) {
        return Err(s3_error!(MalformedXML));
    }
    let view = inner.view(&request.input.bucket).await?;
    let private = varve_object::Acl::private(view.owner());
    if rule.object_ownership.as_str() == ObjectOwnership::BUCKET_OWNER_ENFORCED
        && view.settings.acl != private
    {
        return Err(s3_error!(
            InvalidBucketAclWithObjectOwnership,
            "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
        ));
    }
    put(inner, &request.input.bucket, Document::Ownership, to_xml(&controls)?).await?;
    answer(PutBucketOwnershipControlsOutput {})
}

pub(crate) async fn delete_ownership(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketOwnershipControlsInput>,
) -> Answer<DeleteBucketOwnershipControlsOutput> {
    remove(inner, &request.input.bucket, Document::Ownership).await?;
    answer(DeleteBucketOwnershipControlsOutput {})
}

pub(crate) async fn get_public_access(
    inner: &GatewayInner,
    request: S3Request<GetPublicAccessBlockInput>,
) -> Answer<GetPublicAccessBlockOutput> {
    let found: Option<PublicAccessBlockConfiguration> =
        get(inner, &request.input.bucket, Document::PublicAccess).await?;
    let missing = || {
        named(
            "NoSuchPublicAccessBlockConfiguration",
            hyper::StatusCode::NOT_FOUND,
            "The public access block configuration was not found",
        )
    };
    answer(GetPublicAccessBlockOutput {
        public_access_block_configuration: Some(found.ok_or_else(missing)?),
    })
}

pub(crate) async fn put_public_access(
    inner: &GatewayInner,
    request: S3Request<PutPublicAccessBlockInput>,
) -> Answer<PutPublicAccessBlockOutput> {
    let configuration = request.input.public_access_block_configuration;
    put(inner, &request.input.bucket, Document::PublicAccess, to_xml(&configuration)?).await?;
    let _ = PublicAccess::of(configuration);
    answer(PutPublicAccessBlockOutput {})
}

pub(crate) async fn delete_public_access(
    inner: &GatewayInner,
    request: S3Request<DeletePublicAccessBlockInput>,
) -> Answer<DeletePublicAccessBlockOutput> {
    remove(inner, &request.input.bucket, Document::PublicAccess).await?;
    answer(DeletePublicAccessBlockOutput {})
}

pub(crate) async fn get_lock(
    inner: &GatewayInner,
    request: S3Request<GetObjectLockConfigurationInput>,
) -> Answer<GetObjectLockConfigurationOutput> {
    let view = inner.view(&request.input.bucket).await?;
    if !view.settings.object_lock {
        return Err(s3_error!(
            ObjectLockConfigurationNotFoundError,
            "Object Lock configuration does not exist for this bucket"
        ));
    }
    let found: Option<ObjectLockConfiguration> =
        view.document(Document::ObjectLock).map_err(crate::answers::error::of_store)?;
    let enabled = ObjectLockConfiguration {
        object_lock_enabled: Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED)),
        ..ObjectLockConfiguration::default()
    };
    answer(GetObjectLockConfigurationOutput {
        object_lock_configuration: Some(found.unwrap_or(enabled)),
    })
}

pub(crate) async fn put_lock(
    inner: &GatewayInner,
    request: S3Request<PutObjectLockConfigurationInput>,
) -> Answer<PutObjectLockConfigurationOutput> {
    inner.view(&request.input.bucket).await?;
    let configuration = request.input.object_lock_configuration.ok_or_else(|| {
        let text = "Request Body is empty";
        named("MissingRequestBodyError", hyper::StatusCode::BAD_REQUEST, text)
    })?;
    if configuration.object_lock_enabled.as_ref().map(ObjectLockEnabled::as_str)
        != Some(ObjectLockEnabled::ENABLED)
    {
        return Err(s3_error!(MalformedXML));
    }
    if let Some(rule) = &configuration.rule {
        let default = rule.default_retention.as_ref().ok_or_else(|| s3_error!(MalformedXML))?;
        check_default_retention(default)?;
    }
    let text = to_xml(&configuration)?;
    inner
        .change(&request.input.bucket, move |settings| {
            if settings.versioning != Versioning::Enabled {
                return Err(varve_object::Error::State {
                    reason: "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration",
                });
            }
            settings.object_lock = true;
            settings.documents.insert(Document::ObjectLock, text);
            Ok(())
        })
        .await?;
    answer(PutObjectLockConfigurationOutput::default())
}

fn check_default_retention(default: &DefaultRetention) -> S3Result<()> {
    let mode = default.mode.as_ref().map(ObjectLockRetentionMode::as_str);
    if !matches!(
        mode,
        Some(ObjectLockRetentionMode::COMPLIANCE | ObjectLockRetentionMode::GOVERNANCE)
    ) {
        return Err(s3_error!(MalformedXML));
    }
    let days = match (default.days, default.years) {
        (Some(days), None) => days,
        (None, Some(years)) => years.saturating_mul(365),
        _ => return Err(s3_error!(MalformedXML)),
    };
    if days <= 0 || days > RETENTION_DAYS_MAX {
        let text = "Default retention period must be a positive integer value";
        return Err(named("InvalidRetentionPeriod", hyper::StatusCode::BAD_REQUEST, text));
    }
    Ok(())
}

pub(crate) async fn get_acl(
    inner: &GatewayInner,
    request: S3Request<GetBucketAclInput>,
) -> Answer<GetBucketAclOutput> {
    let view = inner.view(&request.input.bucket).await?;
    answer(GetBucketAclOutput {
        grants: Some(acl::grants(inner, &view.settings.acl)),
        owner: Some(acl::owner(inner, view.owner())),
    })
}

pub(crate) async fn put_acl(
    inner: &GatewayInner,
    mut request: S3Request<PutBucketAclInput>,
) -> Answer<PutBucketAclOutput> {
    let _origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let view = inner.view(&input.bucket).await?;
    let headers = AclHeaders {
        canned: input.acl.as_ref().map(|acl| acl.as_str().to_owned()),
        full_control: input.grant_full_control,
        read: input.grant_read,
        read_acp: input.grant_read_acp,
        write: input.grant_write,
        write_acp: input.grant_write_acp,
    };
    let policy = input.access_control_policy.as_ref();
    let new = asked_acl(inner, &view, &headers, policy, view.owner())?;
    inner
        .change(&input.bucket, move |settings| {
            settings.acl = new;
            Ok(())
        })
        .await?;
    answer(PutBucketAclOutput {})
}

pub(crate) async fn request_payment(
    inner: &GatewayInner,
    request: S3Request<GetBucketRequestPaymentInput>,
) -> Answer<GetBucketRequestPaymentOutput> {
    inner.view(&request.input.bucket).await?;
    answer(GetBucketRequestPaymentOutput { payer: Some(Payer::from_static(Payer::BUCKET_OWNER)) })
}
