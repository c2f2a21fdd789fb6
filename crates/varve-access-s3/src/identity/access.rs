//! Who a request comes from and whether it may do what it asks: policies of users and buckets, ownership, access
//! control lists.
//!
//! Order: a denial of any policy refuses; the administrator, an allowance of any policy, and ownership of the bucket
//! (unless the owner has a policy of its own) permit; else the lists decide.

use std::sync::Arc;

use hyper::HeaderMap;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{Timestamp, TimestampFormat};
use s3s::path::S3Path;
use s3s::{S3Result, s3_error};
use varve_object::{Acl, Attributes, Grantee, Permission, Select};

use crate::answers::error::{invalid_argument, of_store, with_elements};
use crate::bucket::view::BucketView;
use crate::gateway::GatewayInner;
use crate::identity::policy::{PolicyQuestion, Verdict};
use crate::identity::principal::{Peer, Principal, VerifiedPrincipal};
use crate::identity::users::KnownUser;
use crate::request::account::RequestNotes;
use crate::request::query::{query_value, tags_of_header};

#[cfg(test)]
mod tests;

/// Finds secrets.
pub(crate) struct Keys {
    pub(crate) inner: Arc<GatewayInner>,
}

/// Checks requests before their bodies are read.
pub(crate) struct Access {
    pub(crate) inner: Arc<GatewayInner>,
}

/// What conditions of policies look at.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) query: &'a str,
    pub(crate) peer: Option<Peer>,
    pub(crate) presigned: bool,
    pub(crate) signature_v2: bool,
}

/// What lists have to say about an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    Bucket(Permission),
    Object(Permission),
    /// The owner of the bucket alone.
    None,
}

/// What is asked for.
#[derive(Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    pub(crate) view: &'a BucketView,
    pub(crate) key: Option<&'a str>,
    pub(crate) select: Select,
}

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let (_, secret) = signer(&self.inner, access_key)?;
        Ok(SecretKey::from(secret.to_string()))
    }
}

/// User and secret of an access key.
pub(crate) fn signer(
    inner: &GatewayInner,
    access_key: &str,
) -> S3Result<(Arc<KnownUser>, Arc<str>)> {
    let found = inner.users.signer(access_key).map_err(of_store)?;
    found.ok_or_else(|| {
        let text = "The AWS Access Key Id you provided does not exist in our records.";
        let error = s3_error!(InvalidAccessKeyId, "{text}");
        with_elements(error, &[("AWSAccessKeyId", access_key)])
    })
}

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let user = match cx.credentials() {
            Some(credentials) => Some(signer(&self.inner, &credentials.access_key)?.0),
            None => None,
        };
        let verified = cx.extensions_mut().get::<VerifiedPrincipal>().cloned();
        let query = cx.uri().query().unwrap_or_default();
        let caller = verified
            .map_or_else(|| Principal::new(user, query), |VerifiedPrincipal(caller)| caller);
        let peer = cx.extensions_mut().get::<Peer>().copied();
        cx.extensions_mut().insert(caller.clone());
        if let Some(noted) = cx.extensions_mut().get::<RequestNotes>().cloned() {
            noted.note(self.inner.figures.operation(cx.s3_op().name()), &caller);
        }
        let query = cx.uri().query().unwrap_or_default();
        let Principal { presigned, signature_v2, .. } = caller;
        let context = Context { headers: cx.headers(), query, peer, presigned, signature_v2 };
        let select = selected(&query_value(query, "versionId"))?;
        let op = cx.s3_op().name();
        match cx.s3_path() {
            S3Path::Root => self.check_root(op, &caller, &context),
            S3Path::Bucket { bucket } if op == "CreateBucket" => {
                self.check_user(&caller, "s3:CreateBucket", bucket, &context)
            }
            S3Path::Bucket { bucket } => {
                self.check_bucket(op, &caller, &context, bucket, None, select).await
            }
            S3Path::Object { bucket, key } => {
                self.check_bucket(op, &caller, &context, bucket, Some(key), select).await
            }
        }
    }
}

impl Access {
    fn check_root(&self, op: &str, caller: &Principal, context: &Context<'_>) -> S3Result<()> {
        match op {
            "ListBuckets" => self.check_user(caller, "s3:ListAllMyBuckets", "", context),
            _ => Err(s3_error!(NotImplemented)),
        }
    }

    /// An action that belongs to no bucket: for users that their policy does not keep from it.
    fn check_user(
        &self,
        caller: &Principal,
        action: &str,
        resource: &str,
        context: &Context<'_>,
    ) -> S3Result<()> {
        let Some(known) = &caller.user else { return Err(s3_error!(AccessDenied)) };
        let Some(policy) = &known.policy else { return Ok(()) };
        let value = |key: &str| context.value(key, Some(known), &[]);
        let verdict = policy.ask(&PolicyQuestion {
            user: Some(&known.user),
            action,
            resource,
            value: &value,
        });
        if verdict == Verdict::Allow || (known.user.admin && verdict == Verdict::Silent) {
            Ok(())
        } else {
            Err(s3_error!(AccessDenied))
        }
    }

    async fn check_bucket(
        &self,
        op: &str,
        caller: &Principal,
        context: &Context<'_>,
        bucket: &str,
        key: Option<&str>,
        select: Select,
    ) -> S3Result<()> {
        let view = self.inner.view(bucket).await?;
        check_expected_owner(context.headers, "x-amz-expected-bucket-owner", &view)?;
        // Each key of these has its own check.
        if op == "DeleteObjects" {
            return Ok(());
        }
        let action = action(op, select != Select::Newest);
        let target = RequestTarget { view: &view, key, select };
        authorize(&self.inner, caller, context, target, action).await?;
        if op == "PutObject" || op == "CopyObject" || op == "CreateMultipartUpload" {
            check_retain_until(context.headers)?;
            for action in extra_actions(context.headers) {
                authorize(&self.inner, caller, context, target, action).await?;
            }
        }
        Ok(())
    }
}

/// What a request to put an object does beside that: who may only write must not make objects that nobody can delete.
/// Its tags and lists come with the right to write, as in Ceph; policies can make conditions of their headers.
pub(crate) fn extra_actions(headers: &HeaderMap) -> impl Iterator<Item = &'static str> {
    let actions = [
        ("x-amz-bypass-governance-retention", "s3:BypassGovernanceRetention"),
        ("x-amz-object-lock-mode", "s3:PutObjectRetention"),
        ("x-amz-object-lock-retain-until-date", "s3:PutObjectRetention"),
        ("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
    ];
    actions
        .into_iter()
        .filter(|(header, _)| headers.contains_key(*header))
        .map(|(_, action)| action)
}

/// A time that the protocol library would refuse as a header without sense.
fn check_retain_until(headers: &HeaderMap) -> S3Result<()> {
    let name = "x-amz-object-lock-retain-until-date";
    let Some(value) = headers.get(name) else { return Ok(()) };
    let text = value.to_str().unwrap_or_default();
    if Timestamp::parse(TimestampFormat::DateTime, text).is_err() {
        let what = "The retain until date must be provided in ISO 8601 format";
        return Err(invalid_argument(what, name, text));
    }
    Ok(())
}

/// Refuses a bucket of another owner than the client expects.
pub(crate) fn check_expected_owner(
    headers: &HeaderMap,
    name: &str,
    view: &BucketView,
) -> S3Result<()> {
    match headers.get(name) {
        Some(owner) if owner.as_bytes() != view.owner().as_bytes() => Err(s3_error!(AccessDenied)),
        _ => Ok(()),
    }
}

/// The order that no version has: they begin at 1.
const NO_ORDER: u64 = 0;
/// Longest id of a version, in bytes.
const VERSION_ID_BYTES_MAX: usize = 1024;

/// Which version an id names.
pub(crate) fn selected(id: &Option<String>) -> S3Result<Select> {
    match id.as_deref() {
        None | Some("") => Ok(Select::Newest),
        Some("null") => Ok(Select::Null),
        Some(text) if text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(Select::Order(u64::from_str_radix(text, 16).unwrap_or(NO_ORDER)))
        }
        // It may be the id of a version elsewhere, so it is none that is here.
        Some(text)
            if text.len() <= VERSION_ID_BYTES_MAX
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) =>
        {
            Ok(Select::Order(NO_ORDER))
        }
        Some(text) => Err(invalid_argument("Invalid version id specified", "versionId", text)),
    }
}

/// The tags of the object, if a policy asks for them.
async fn asked_tags(
    inner: &GatewayInner,
    view: &BucketView,
    user: Option<&KnownUser>,
    target: &RequestTarget<'_>,
) -> S3Result<Vec<(String, String)>> {
    let policies = view.policy.iter().chain(user.iter().filter_map(|known| known.policy.as_ref()));
    let asks_for_tags = { policies }.any(|policy| policy.asks_for_tags());
    match target.key {
        Some(key) if asks_for_tags => {
            let found = attributes(inner, view, key, target.select).await?;
            Ok(found.map(|found| found.tags).unwrap_or_default())
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether a caller may do an action to a bucket, or to an object in it.
pub(crate) async fn authorize(
    inner: &GatewayInner,
    caller: &Principal,
    context: &Context<'_>,
    target: RequestTarget<'_>,
    action: &str,
) -> S3Result<()> {
    let view = target.view;
    let user = caller.user.as_deref();
    let tags = asked_tags(inner, view, user, &target).await?;
    let resource = target
        .key
        .map_or_else(|| view.bucket.name.clone(), |key| format!("{}/{key}", view.bucket.name));
    let value = |key: &str| context.value(key, user, &tags);
    let question = PolicyQuestion {
        user: user.map(|known| &known.user),
        action,
        resource: &resource,
        value: &value,
    };
    let own = user
        .and_then(|known| known.policy.as_ref())
        .map_or(Verdict::Silent, |policy| policy.ask(&question));
    let of_bucket = view.policy.as_ref().map_or(Verdict::Silent, |policy| policy.ask(&question));
    let saves_itself =
        matches!(action, "s3:GetBucketPolicy" | "s3:PutBucketPolicy" | "s3:DeleteBucketPolicy")
            && caller.id() == view.owner();
    if own == Verdict::Deny || (of_bucket == Verdict::Deny && !(saves_itself && caller.is_admin()))
    {
        let source = if own == Verdict::Deny { "an identity-based" } else { "a resource-based" };
        return Err(s3_error!(
            AccessDenied,
            "User: {} is not authorized to perform: {action} on resource: \"arn:aws:s3:::{resource}\" with an explicit deny in {source} policy",
            if caller.user.is_some() { caller.id() } else { "anonymous" }
        ));
    }
    let open = view.policy.as_ref().is_some_and(|policy| policy.is_public());
    let restricted = view.public_access.restrict && open && caller.id() != view.owner();
    let allowed = own == Verdict::Allow || (of_bucket == Verdict::Allow && !restricted);
    // A list belongs to the owner of its object.
    let list = matches!(
        action,
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" | "s3:PutObjectAcl" | "s3:PutObjectVersionAcl"
    );
    if caller.is_admin() || (caller.owns(view) && (!list || view.owner_enforced)) {
        return Ok(());
    }
    let may_list = || may_list(&question, user, &target);
    if allowed {
        let hides = action.starts_with("s3:GetObject") && target.key.is_some() && !caller.visitor;
        if !hides || may_list() || permits(view, &view.settings.acl, caller, Permission::Read) {
            return Ok(());
        }
        let found = attributes(inner, view, target.key.unwrap_or_default(), target.select).await?;
        return found.map(|_| ()).ok_or_else(|| s3_error!(AccessDenied));
    }
    if listed(inner, caller, target, action, &may_list).await? {
        Ok(())
    } else {
        Err(s3_error!(AccessDenied))
    }
}

/// Whether policies let the one who asks list what begins like the key: then it may know that the key is not there.
fn may_list(
    question: &PolicyQuestion<'_>,
    user: Option<&KnownUser>,
    target: &RequestTarget<'_>,
) -> bool {
    let of_key = |name: &str| {
        if name == "s3:prefix" { target.key.map(str::to_owned) } else { (question.value)(name) }
    };
    let asked = PolicyQuestion {
        user: question.user,
        action: "s3:ListBucket",
        resource: &target.view.bucket.name,
        value: &of_key,
    };
    let own = user.and_then(|known| known.policy.as_ref());
    let policies = own.into_iter().chain(target.view.policy.as_ref());
    let verdicts: Vec<Verdict> = policies.map(|policy| policy.ask(&asked)).collect();
    verdicts.contains(&Verdict::Allow) && !verdicts.contains(&Verdict::Deny)
}

/// Whether the lists permit it. Whether a key exists is told to those who may list.
async fn listed(
    inner: &GatewayInner,
    caller: &Principal,
    target: RequestTarget<'_>,
    action: &str,
    may_list: &(dyn Fn() -> bool + Sync),
) -> S3Result<bool> {
    let view = target.view;
    let permission = match lists(action) {
        Lists::None => return Ok(false),
        Lists::Bucket(permission) => {
            return Ok(permits(view, &view.settings.acl, caller, permission));
        }
        Lists::Object(permission) => permission,
    };
    Ok(match attributes(inner, view, target.key.unwrap_or_default(), target.select).await? {
        Some(found) => {
            (found.owner == caller.id() && caller.user.is_some())
                || permits(view, &found.acl, caller, permission)
        }
        None => may_list() || permits(view, &view.settings.acl, caller, Permission::Read),
    })
}

fn permits(view: &BucketView, acl: &Acl, caller: &Principal, permission: Permission) -> bool {
    if view.owner_enforced {
        return false;
    }
    let user = caller.user.as_ref().map(|known| known.user.id.as_str());
    if !view.public_access.ignore_acls {
        return acl.allows(user, permission);
    }
    let grants = acl
        .grants
        .iter()
        .filter(|grant| !matches!(grant.grantee, Grantee::Everyone | Grantee::Users));
    Acl { grants: grants.cloned().collect() }.allows(user, permission)
}

async fn attributes(
    inner: &GatewayInner,
    view: &BucketView,
    key: &str,
    select: Select,
) -> S3Result<Option<Attributes>> {
    let found = inner.still(view, inner.store.find(view.id(), key, select).await).await?;
    found
        .filter(|found| !found.version.marker)
        .map(|found| Attributes::decode(&found.version.attributes))
        .transpose()
        .map_err(of_store)
}

impl Context<'_> {
    /// Value of a condition key.
    fn value(
        &self,
        key: &str,
        user: Option<&KnownUser>,
        tags: &[(String, String)],
    ) -> Option<String> {
        let header = |name: &str| {
            self.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        if let Some(tag) = key.strip_prefix("s3:existingobjecttag/") {
            return tags.iter().find(|(name, _)| name == tag).map(|(_, value)| value.clone());
        }
        if let Some(tag) = key.strip_prefix("s3:requestobjecttag/") {
            let tags = tags_of_header(&header("x-amz-tagging")?).ok()?;
            return tags.into_iter().find(|(name, _)| name == tag).map(|(_, value)| value);
        }
        match key {
            "s3:prefix" => query_value(self.query, "prefix"),
            "s3:delimiter" => query_value(self.query, "delimiter"),
            "s3:max-keys" => query_value(self.query, "max-keys"),
            "s3:versionid" => query_value(self.query, "versionId"),
            "s3:authtype" => {
                Some(if self.presigned { "REST-QUERY-STRING" } else { "REST-HEADER" }.to_owned())
            }
            "s3:signatureversion" => {
                Some(if self.signature_v2 { "AWS" } else { "AWS4-HMAC-SHA256" }.to_owned())
            }
            "aws:sourceip" => self.peer?.address.map(|address| address.to_string()),
            "aws:securetransport" => Some(self.peer.is_some_and(|peer| peer.tls).to_string()),
            "aws:referer" => header("referer"),
            "aws:useragent" => header("user-agent"),
            "aws:username" | "aws:userid" => user.map(|known| known.user.id.clone()),
            "aws:currenttime" | "aws:epochtime" => {
                Some((crate::clock::now_ms() / 1000).to_string())
            }
            _ => header(key.strip_prefix("s3:").filter(|name| name.starts_with("x-amz-"))?),
        }
    }
}

/// The action of an operation, in terms of policies.
fn action(op: &str, version: bool) -> &'static str {
    let of_version = |plain, versioned| if version { versioned } else { plain };
    match op {
        "HeadBucket" | "ListObjects" | "ListObjectsV2" => "s3:ListBucket",
        "ListObjectVersions" => "s3:ListBucketVersions",
        "ListMultipartUploads" => "s3:ListBucketMultipartUploads",
        "GetObject" | "HeadObject" => of_version("s3:GetObject", "s3:GetObjectVersion"),
        "GetObjectAttributes" => {
            of_version("s3:GetObjectAttributes", "s3:GetObjectVersionAttributes")
        }
        "GetObjectTorrent" => "s3:GetObjectTorrent",
        "PutObject"
        | "CopyObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload" => "s3:PutObject",
        "AbortMultipartUpload" => "s3:AbortMultipartUpload",
        "ListParts" => "s3:ListMultipartUploadParts",
        "DeleteObject" => of_version("s3:DeleteObject", "s3:DeleteObjectVersion"),
        "GetObjectAcl" => of_version("s3:GetObjectAcl", "s3:GetObjectVersionAcl"),
        "PutObjectAcl" => of_version("s3:PutObjectAcl", "s3:PutObjectVersionAcl"),
        "GetObjectTagging" => of_version("s3:GetObjectTagging", "s3:GetObjectVersionTagging"),
        "PutObjectTagging" => of_version("s3:PutObjectTagging", "s3:PutObjectVersionTagging"),
        "DeleteObjectTagging" => {
            of_version("s3:DeleteObjectTagging", "s3:DeleteObjectVersionTagging")
        }
        "GetObjectRetention" => "s3:GetObjectRetention",
        "PutObjectRetention" => "s3:PutObjectRetention",
        "GetObjectLegalHold" => "s3:GetObjectLegalHold",
        "PutObjectLegalHold" => "s3:PutObjectLegalHold",
        "DeleteBucket" => "s3:DeleteBucket",
        "GetBucketLocation" => "s3:GetBucketLocation",
        "GetBucketAcl" => "s3:GetBucketAcl",
        "GetBucketWebsite" => "s3:GetBucketWebsite",
        "PutBucketWebsite" => "s3:PutBucketWebsite",
        "DeleteBucketWebsite" => "s3:DeleteBucketWebsite",
        "PutBucketAcl" => "s3:PutBucketAcl",
        "GetBucketCors" => "s3:GetBucketCORS",
        "PutBucketCors" | "DeleteBucketCors" => "s3:PutBucketCORS",
        "GetBucketEncryption" => "s3:GetEncryptionConfiguration",
        "PutBucketEncryption" | "DeleteBucketEncryption" => "s3:PutEncryptionConfiguration",
        "GetBucketLifecycleConfiguration" => "s3:GetLifecycleConfiguration",
        "PutBucketLifecycleConfiguration" | "DeleteBucketLifecycle" => {
            "s3:PutLifecycleConfiguration"
        }
        "GetBucketPolicy" => "s3:GetBucketPolicy",
        "PutBucketPolicy" => "s3:PutBucketPolicy",
        "DeleteBucketPolicy" => "s3:DeleteBucketPolicy",
        "GetBucketPolicyStatus" => "s3:GetBucketPolicyStatus",
        "GetBucketTagging" => "s3:GetBucketTagging",
        "PutBucketTagging" | "DeleteBucketTagging" => "s3:PutBucketTagging",
        "GetBucketVersioning" => "s3:GetBucketVersioning",
        "PutBucketVersioning" => "s3:PutBucketVersioning",
        "GetBucketOwnershipControls" => "s3:GetBucketOwnershipControls",
        "PutBucketOwnershipControls" | "DeleteBucketOwnershipControls" => {
            "s3:PutBucketOwnershipControls"
        }
        "GetPublicAccessBlock" => "s3:GetBucketPublicAccessBlock",
        "PutPublicAccessBlock" | "DeletePublicAccessBlock" => "s3:PutBucketPublicAccessBlock",
        "GetObjectLockConfiguration" => "s3:GetBucketObjectLockConfiguration",
        "PutObjectLockConfiguration" => "s3:PutBucketObjectLockConfiguration",
        "GetBucketLogging" => "s3:GetBucketLogging",
        "GetBucketRequestPayment" => "s3:GetBucketRequestPayment",
        _ => action_of_unset(op),
    }
}

/// The same of settings that cannot be made.
fn action_of_unset(op: &str) -> &'static str {
    match op {
        "GetBucketAccelerateConfiguration" => "s3:GetAccelerateConfiguration",
        "GetBucketNotificationConfiguration" => "s3:GetBucketNotification",
        "GetBucketReplication" => "s3:GetReplicationConfiguration",
        "GetBucketAnalyticsConfiguration" | "ListBucketAnalyticsConfigurations" => {
            "s3:GetAnalyticsConfiguration"
        }
        "GetBucketIntelligentTieringConfiguration"
        | "ListBucketIntelligentTieringConfigurations" => "s3:GetIntelligentTieringConfiguration",
        "GetBucketInventoryConfiguration" | "ListBucketInventoryConfigurations" => {
            "s3:GetInventoryConfiguration"
        }
        "GetBucketMetricsConfiguration" | "ListBucketMetricsConfigurations" => {
            "s3:GetMetricsConfiguration"
        }
        _ => "s3:Unknown",
    }
}

fn lists(action: &str) -> Lists {
    match action {
        "s3:ListBucket"
        | "s3:ListBucketVersions"
        | "s3:ListBucketMultipartUploads"
        | "s3:GetBucketLocation" => Lists::Bucket(Permission::Read),
        "s3:PutObject"
        | "s3:DeleteObject"
        | "s3:DeleteObjectVersion"
        | "s3:AbortMultipartUpload"
        | "s3:ListMultipartUploadParts" => Lists::Bucket(Permission::Write),
        "s3:GetBucketAcl" => Lists::Bucket(Permission::ReadAcp),
        "s3:PutBucketAcl" => Lists::Bucket(Permission::WriteAcp),
        "s3:GetObject"
        | "s3:GetObjectVersion"
        | "s3:GetObjectAttributes"
        | "s3:GetObjectVersionAttributes" => Lists::Object(Permission::Read),
        "s3:GetObjectAcl" | "s3:GetObjectVersionAcl" => Lists::Object(Permission::ReadAcp),
        "s3:PutObjectAcl" | "s3:PutObjectVersionAcl" => Lists::Object(Permission::WriteAcp),
        _ => Lists::None,
    }
}
