//! Buckets: making, deleting, listing.

use std::sync::Arc;

use s3s::dto::{
    Bucket, BucketLocationConstraint, CreateBucketInput, CreateBucketOutput, DeleteBucketInput,
    DeleteBucketOutput, GetBucketLocationInput, GetBucketLocationOutput, HeadBucketInput,
    HeadBucketOutput, ListBucketsInput, ListBucketsOutput, ObjectOwnership, OwnershipControls,
    OwnershipControlsRule,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use varve_object::{Acl, BucketOptions, Document, Settings, Versioning};

use super::config::{OWNERSHIPS, bucket_tags};
use super::{Answer, RequestOrigin, answer};
use crate::answers::error::{invalid_argument, of_store};
use crate::bucket::moving::check_here;
use crate::bucket::view::to_xml;
use crate::clock::{now_ms, timestamp};
use crate::compat::repair::NewTags;
use crate::gateway::GatewayInner;
use crate::identity::acl::{AclHeaders, Owners, owner};

/// Most buckets of a page.
const PAGE_MAX: usize = 1000;

pub(crate) async fn create(
    inner: &GatewayInner,
    mut request: S3Request<CreateBucketInput>,
) -> Answer<CreateBucketOutput> {
    let origin = RequestOrigin::of(&mut request);
    let tags = request.extensions.remove::<NewTags>();
    let input = request.input;
    let elsewhere = elsewhere(inner, &input)?;
    let owner = origin.caller.id().to_owned();
    let headers = AclHeaders {
        canned: input.acl.as_ref().map(|acl| acl.as_str().to_owned()),
        full_control: input.grant_full_control.clone(),
        read: input.grant_read.clone(),
        read_acp: input.grant_read_acp.clone(),
        write: input.grant_write.clone(),
        write_acp: input.grant_write_acp.clone(),
    };
    let object_lock = input.object_lock_enabled_for_bucket == Some(true);
    let mut settings = Settings {
        acl: headers.acl(inner, Owners { owner: &owner, bucket: &owner })?,
        owner,
        created_ms: now_ms(),
        versioning: if object_lock { Versioning::Enabled } else { Versioning::Off },
        object_lock,
        ..Settings::default()
    };
    if let Some(ownership) = input.object_ownership {
        if !OWNERSHIPS.contains(&ownership.as_str()) {
            let text = format!("Invalid x-amz-object-ownership header: {}", ownership.as_str());
            return Err(invalid_argument(&text, "x-amz-object-ownership", ownership.as_str()));
        }
        let enforced = ownership.as_str() == ObjectOwnership::BUCKET_OWNER_ENFORCED;
        if enforced && !headers.is_empty() && settings.acl != Acl::private(&settings.owner) {
            return Err(s3_error!(
                InvalidBucketAclWithObjectOwnership,
                "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
            ));
        }
        let controls = OwnershipControls {
            rules: vec![OwnershipControlsRule { object_ownership: ownership }],
        };
        settings.documents.insert(Document::Ownership, to_xml(&controls)?);
    }
    if let Some(NewTags(tags)) = tags {
        settings.documents.insert(Document::Tagging, bucket_tags(&tags)?);
    }
    check_bucket_quota(inner, &settings.owner).await?;
    match inner
        .store
        .create_bucket(&input.bucket, BucketOptions::default(), settings.encode())
        .await
    {
        Ok(_) => {}
        Err(varve_object::Error::BucketExists { .. }) => {
            check_same(inner, &input.bucket, &settings).await?;
            if elsewhere {
                return Err(s3_error!(BucketAlreadyOwnedByYou));
            }
        }
        Err(error) => return Err(of_store(error)),
    }
    let location = Some(format!("/{}", input.bucket));
    let mut response = S3Response::new(CreateBucketOutput { location });
    if let Ok(name) = format!("arn:aws:s3:::{}", input.bucket).parse() {
        response.headers.insert("x-amz-bucket-arn", name);
    }
    Ok(response)
}

/// Whether the bucket is to lie in a region other than the default one. There is one place, and it takes every region's
/// name; where a region is named, making a bucket again is an error.
fn elsewhere(inner: &GatewayInner, input: &CreateBucketInput) -> S3Result<bool> {
    let asked = input
        .create_bucket_configuration
        .as_ref()
        .and_then(|configuration| configuration.location_constraint.as_ref());
    // A directory bucket would be another kind of bucket than there is here.
    let configuration = input.create_bucket_configuration.as_ref();
    if configuration.is_some_and(|asked| asked.bucket.is_some() || asked.location.is_some()) {
        return Err(s3_error!(NotImplemented, "There are no directory buckets"));
    }
    match asked.map(BucketLocationConstraint::as_str) {
        None | Some("" | "us-east-1" | "default") => Ok(false),
        Some(asked) if asked == inner.options.region || is_region(asked) => Ok(true),
        Some(_) => Err(s3_error!(InvalidLocationConstraint)),
    }
}

/// Words of small letters and a number, as `eu-central-1`.
fn is_region(name: &str) -> bool {
    let Some((words, number)) = name.rsplit_once('-') else { return false };
    let is_word =
        |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    words.contains('-') && words.split('-').all(is_word) && number.parse::<u8>().is_ok()
}

/// Making a bucket again, as it is, is no error of its owner.
async fn check_same(inner: &GatewayInner, name: &str, settings: &Settings) -> S3Result<()> {
    let bucket = inner.store.bucket(name).await.map_err(of_store)?;
    let view = inner.view_of(Arc::clone(&bucket))?;
    if view.owner() != settings.owner {
        return Err(s3_error!(BucketAlreadyExists, "The requested bucket name is not available."));
    }
    check_here(&bucket).map_err(of_store)?;
    if view.settings.acl != settings.acl || view.settings.object_lock != settings.object_lock {
        return Err(s3_error!(BucketAlreadyExists, "The bucket exists with other settings."));
    }
    Ok(())
}

async fn check_bucket_quota(inner: &GatewayInner, owner: &str) -> S3Result<()> {
    let most = inner.users.user(owner).map_or(0, |known| known.user.quota_buckets);
    if most > 0 && count(inner, owner).await? >= most {
        let message = format!("The user has {most} buckets, as many as its quota allows.");
        return Err(S3Error::with_message(S3ErrorCode::TooManyBuckets, message));
    }
    Ok(())
}

/// All buckets of an owner.
pub(crate) async fn all_of_owner(
    inner: &GatewayInner,
    owner: &str,
) -> varve_object::Result<Vec<varve_object::BucketId>> {
    inner.store.check_all_read()?;
    let (mut after, mut ids) = (String::new(), Vec::new());
    loop {
        let page = inner.store.list_buckets(&after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(ids) };
        after.clone_from(&last.name);
        for bucket in page {
            let view = inner.parsed(bucket)?;
            if view.owner() == owner {
                ids.push(view.id());
            }
        }
    }
}

async fn count(inner: &GatewayInner, owner: &str) -> S3Result<u64> {
    Ok(all_of_owner(inner, owner).await.map_err(of_store)?.len() as u64)
}

/// Bytes in all buckets of an owner.
pub(crate) async fn bytes_of_owner(inner: &GatewayInner, owner: &str) -> S3Result<u64> {
    let mut bytes = 0;
    for id in all_of_owner(inner, owner).await.map_err(of_store)? {
        match inner.store.usage(id).await {
            Ok(usage) => bytes += usage.bytes,
            Err(varve_object::Error::NoBucket { .. }) => {}
            Err(error) => return Err(of_store(error)),
        }
    }
    Ok(bytes)
}

pub(crate) async fn delete(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketInput>,
) -> Answer<DeleteBucketOutput> {
    let name = &request.input.bucket;
    match inner.store.delete_bucket(name).await {
        Ok(()) => answer(DeleteBucketOutput {}),
        Err(varve_object::Error::BucketNotEmpty { .. }) => {
            let view = inner.view(name).await?;
            if view.settings.versioning == Versioning::Off {
                return Err(s3_error!(BucketNotEmpty));
            }
            let text = "The bucket you tried to delete is not empty. You must delete all versions in the bucket.";
            Err(s3_error!(BucketNotEmpty, "{text}"))
        }
        Err(error) => Err(of_store(error)),
    }
}

/// Tells what the bucket holds, under the names by which RGW's clients know it.
pub(crate) async fn head(
    inner: &GatewayInner,
    request: S3Request<HeadBucketInput>,
) -> Answer<HeadBucketOutput> {
    let view = inner.view(&request.input.bucket).await?;
    let usage = inner.counted(view.id()).await.map_err(of_store)?;
    let mut response = S3Response::new(HeadBucketOutput {
        bucket_region: Some(inner.options.region.clone()),
        ..HeadBucketOutput::default()
    });
    let most = inner.users.user(view.owner()).map_or(0, |known| known.user.quota_buckets);
    let quota = |most: u64| if most == 0 { "-1".to_owned() } else { most.to_string() };
    let held = usage.map(|usage| {
        [
            ("x-rgw-object-count", usage.objects.to_string()),
            ("x-rgw-bytes-used", usage.bytes.to_string()),
        ]
    });
    let quotas = [
        ("x-rgw-quota-max-buckets", if most == 0 { "1000".to_owned() } else { most.to_string() }),
        ("x-rgw-quota-bucket-size", quota(view.settings.quota_bytes)),
        ("x-rgw-quota-bucket-objects", quota(view.settings.quota_objects)),
    ];
    for (name, value) in held.into_iter().flatten().chain(quotas) {
        if let Ok(value) = value.parse() {
            response.headers.insert(name, value);
        }
    }
    Ok(response)
}

pub(crate) async fn location(
    inner: &GatewayInner,
    request: S3Request<GetBucketLocationInput>,
) -> Answer<GetBucketLocationOutput> {
    inner.view(&request.input.bucket).await?;
    let region = Some(inner.options.region.clone()).filter(|region| region != "us-east-1");
    answer(GetBucketLocationOutput {
        location_constraint: region.map(BucketLocationConstraint::from),
    })
}

/// The caller's own buckets; the administrator sees all.
pub(crate) async fn list(
    inner: &GatewayInner,
    mut request: S3Request<ListBucketsInput>,
) -> Answer<ListBucketsOutput> {
    inner.store.check_all_read().map_err(of_store)?; // No list is better than one that looks whole.
    let origin = RequestOrigin::of(&mut request);
    let input = request.input;
    let most = match input.max_buckets {
        Some(most) if most < 1 => {
            let text = "Argument max-buckets must be an integer between 1 and 10000.";
            return Err(invalid_argument(text, "max-buckets", &most.to_string()));
        }
        Some(most) => usize::try_from(most).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let prefix = input.prefix.clone().unwrap_or_default();
    let mut after = input.continuation_token.clone().unwrap_or_default();
    let (mut buckets, mut more): (Vec<Bucket>, bool) = (Vec::new(), false);
    'pages: loop {
        let page = inner.store.list_buckets(&after, PAGE_MAX).await.map_err(of_store)?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.name);
        for bucket in page {
            if check_here(&bucket).is_err() {
                continue; // It is listed where it can be used.
            }
            let view = inner.view_of(bucket)?;
            let own = view.owner() == origin.caller.id() || origin.caller.is_admin();
            if !own || !view.bucket.name.starts_with(&prefix) {
                continue;
            }
            if buckets.len() == most {
                more = true;
                break 'pages;
            }
            buckets.push(Bucket {
                bucket_region: Some(inner.options.region.clone()),
                creation_date: Some(timestamp(view.settings.created_ms)),
                name: Some(view.bucket.name.clone()),
            });
        }
    }
    let token = if more { buckets.last().and_then(|bucket| bucket.name.clone()) } else { None };
    answer(ListBucketsOutput {
        buckets: Some(buckets),
        continuation_token: token,
        owner: Some(owner(inner, origin.caller.id())),
        prefix: input.prefix,
    })
}

#[cfg(test)]
mod tests {
    use super::is_region;

    #[test]
    fn regions_have_names_of_words_and_a_number() {
        for name in ["us-west-2", "eu-central-1", "us-gov-east-1"] {
            assert!(is_region(name), "{name}");
        }
        for name in [
            "",
            "-",
            "us",
            "us-1",
            "us--1",
            "us-west-",
            "us-west-x",
            "US-WEST-1",
            "us west-1",
            "us-west-1000",
        ] {
            assert!(!is_region(name), "{name}");
        }
    }
}
