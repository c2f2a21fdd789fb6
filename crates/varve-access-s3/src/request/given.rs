//! What a request says about an object to be made, beside its bytes: headers, metadata, tags, list, lock, encryption.

use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;
use base64::{Engine, alphabet};
use s3s::crypto::{Checksum as _, Md5};
use s3s::dto::{self, AccessControlPolicy, Timestamp, TimestampFormat};
use s3s::{S3Result, s3_error};
use varve_object::{Acl, Attributes, Encryption, KeyHolder, Retention};

use crate::answers::error::{invalid_argument, named, with_elements};
use crate::body::cipher::BodyKey;
use crate::body::seal::{KEY_LEN, aead, open_with, random, seal_with};
use crate::bucket::view::BucketView;
use crate::clock::{ms_of, now_ms};
use crate::gateway::GatewayInner;
use crate::identity::acl::{self, AclHeaders, Owners};
use crate::identity::principal::Principal;
use crate::request::query::tags_of_header;

/// Most bytes of user metadata, names included.
const METADATA_BYTES_MAX: usize = 2048;
/// Where a website sends those who ask for the object.
pub(crate) const REDIRECT: &str = "x-amz-website-redirect-location";
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Everything that requests which make objects have in common.
#[derive(Debug, Default)]
pub(crate) struct ObjectHeaders {
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) tagging: Option<String>,
    pub(crate) acl: AclHeaders,
    pub(crate) lock_mode: Option<String>,
    pub(crate) lock_until: Option<Timestamp>,
    pub(crate) hold: Option<String>,
    pub(crate) storage_class: Option<String>,
    pub(crate) sse: Sse,
}

/// What a request says about encryption.
#[derive(Debug, Default)]
pub(crate) struct Sse {
    pub(crate) algorithm: Option<String>,
    pub(crate) key_id: Option<String>,
    pub(crate) customer: Customer,
}

/// A client's own key.
#[derive(Default, Clone)]
pub(crate) struct Customer {
    pub(crate) algorithm: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) md5: Option<String>,
}

impl std::fmt::Debug for Customer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Customer").field("md5", &self.md5).finish_non_exhaustive()
    }
}

/// Takes these fields out of an input.
macro_rules! given {
    ($input:expr) => {{
        let input = &$input;
        let mut headers = Vec::new();
        let mut header = |name: &'static str, value: &Option<String>| {
            headers.extend(value.clone().map(|value| (name, value)))
        };
        header("cache-control", &input.cache_control);
        header("content-disposition", &input.content_disposition);
        header("content-encoding", &input.content_encoding);
        header("content-language", &input.content_language);
        header("content-type", &input.content_type);
        header("expires", &input.expires.as_ref().and_then(crate::request::given::http_date));
        header(crate::request::given::REDIRECT, &input.website_redirect_location);
        let mut metadata: Vec<(String, String)> = input
            .metadata
            .iter()
            .flatten()
            .map(|(k, v)| (k.to_ascii_lowercase(), v.clone()))
            .collect();
        metadata.sort();
        crate::request::given::ObjectHeaders {
            headers,
            metadata,
            tagging: input.tagging.clone(),
            acl: crate::identity::acl::AclHeaders {
                canned: input.acl.as_ref().map(|acl| acl.as_str().to_owned()),
                full_control: input.grant_full_control.clone(),
                read: input.grant_read.clone(),
                read_acp: input.grant_read_acp.clone(),
                write: None,
                write_acp: input.grant_write_acp.clone(),
            },
            lock_mode: input.object_lock_mode.as_ref().map(|mode| mode.as_str().to_owned()),
            lock_until: input.object_lock_retain_until_date.clone(),
            hold: input
                .object_lock_legal_hold_status
                .as_ref()
                .map(|status| status.as_str().to_owned()),
            storage_class: input.storage_class.as_ref().map(|class| class.as_str().to_owned()),
            sse: crate::request::given::Sse {
                algorithm: input.server_side_encryption.as_ref().map(|sse| sse.as_str().to_owned()),
                key_id: input.ssekms_key_id.clone(),
                customer: crate::request::given::customer!(input),
            },
        }
    }};
}

/// Takes the fields of a client's key out of an input.
macro_rules! customer {
    ($input:expr) => {
        crate::request::given::Customer {
            algorithm: $input.sse_customer_algorithm.clone(),
            key: $input.sse_customer_key.clone(),
            md5: $input.sse_customer_key_md5.clone(),
        }
    };
}

/// Tells an answer how an object is encrypted.
macro_rules! show_sse {
    ($encryption:expr, $to:expr) => {{
        let shown = crate::request::given::describe_encryption($encryption);
        $to.server_side_encryption =
            shown.algorithm.map(s3s::dto::ServerSideEncryption::from_static);
        $to.ssekms_key_id = shown.key_id;
        $to.sse_customer_algorithm = shown.customer_md5.as_ref().map(|_| "AES256".to_owned());
        $to.sse_customer_key_md5 = shown.customer_md5;
    }};
}

pub(crate) use {customer, given, show_sse};

/// An encryption as answers tell it.
#[derive(Default)]
pub(crate) struct SseHeaders {
    pub(crate) algorithm: Option<&'static str>,
    pub(crate) key_id: Option<String>,
    pub(crate) customer_md5: Option<String>,
}

pub(crate) fn describe_encryption(encryption: Option<&Encryption>) -> SseHeaders {
    match encryption.map(|encryption| &encryption.holder) {
        None => SseHeaders::default(),
        Some(KeyHolder::Gateway) => SseHeaders {
            algorithm: Some(dto::ServerSideEncryption::AES256),
            ..SseHeaders::default()
        },
        Some(KeyHolder::Named { id }) => SseHeaders {
            algorithm: Some(dto::ServerSideEncryption::AWS_KMS),
            key_id: Some(id.clone()),
            customer_md5: None,
        },
        Some(KeyHolder::Client { md5 }) => {
            SseHeaders { customer_md5: Some(md5.clone()), ..SseHeaders::default() }
        }
    }
}

impl ObjectHeaders {
    /// The attributes that follow, without entity tag and checksum; and the key to encrypt with.
    pub(crate) fn attributes(
        &self,
        inner: &GatewayInner,
        view: &BucketView,
        caller: &Principal,
    ) -> S3Result<(Attributes, Option<BodyKey>)> {
        let (encryption, key) = self.sse.encryption(inner, view)?.unzip();
        let full_control = self.acl.canned.as_deref() == Some("bucket-owner-full-control");
        let owner = if view.owner_preferred && full_control {
            view.owner().to_owned()
        } else {
            owner_of(view, caller)
        };
        let attributes = Attributes {
            acl: self.acl(inner, view, &owner)?,
            owner,
            headers: self.kept_headers()?,
            metadata: self.checked_metadata()?,
            tags: self.tagging.as_deref().map(tags_of_header).transpose()?.unwrap_or_default(),
            retention: self.retention(view)?,
            legal_hold: self.legal_hold(view)?,
            encryption,
            storage_class: self.class()?,
            ..Attributes::default()
        };
        Ok((attributes, key))
    }

    fn acl(
        &self,
        inner: &GatewayInner,
        view: &BucketView,
        owner: &str,
    ) -> S3Result<varve_object::Acl> {
        let owners = Owners { owner, bucket: view.owner() };
        check_acl_headers(view, &self.acl)?;
        let acl = self.acl.acl(inner, owners)?;
        if view.public_access.block_acls && acl.is_public() {
            return Err(s3_error!(AccessDenied, "Public access is blocked"));
        }
        Ok(acl)
    }

    /// The encoding of the transfer is none of the object.
    fn kept_headers(&self) -> S3Result<Vec<(String, String)>> {
        for (name, value) in &self.headers {
            let good = ["/", "http://", "https://"].iter().any(|begin| value.starts_with(begin));
            if *name == REDIRECT && !good {
                return Err(named(
                    "InvalidRedirectLocation",
                    hyper::StatusCode::BAD_REQUEST,
                    "The website redirect location must have a prefix of 'http://' or 'https://' or '/'.",
                ));
            }
        }
        let kept = self.headers.iter().filter_map(|(name, value)| {
            if *name == "content-type" && value.is_empty() {
                return None;
            }
            if *name != "content-encoding" {
                return Some((*name, value.clone()));
            }
            let rest: Vec<&str> = value
                .split(',')
                .map(str::trim)
                .filter(|part| *part != "aws-chunked" && !part.is_empty())
                .collect();
            (!rest.is_empty()).then(|| (*name, rest.join(", ")))
        });
        Ok(kept.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn checked_metadata(&self) -> S3Result<Vec<(String, String)>> {
        let bytes: usize = self.metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(s3_error!(MetadataTooLarge));
        }
        Ok(self.metadata.clone())
    }

    fn class(&self) -> S3Result<String> {
        match self.storage_class.as_deref() {
            None | Some("STANDARD") => Ok(String::new()),
            Some(
                class @ ("REDUCED_REDUNDANCY"
                | "STANDARD_IA"
                | "ONEZONE_IA"
                | "INTELLIGENT_TIERING"),
            ) => Ok(class.to_owned()),
            Some(_) => Err(s3_error!(InvalidStorageClass)),
        }
    }

    fn retention(&self, view: &BucketView) -> S3Result<Option<Retention>> {
        match (&self.lock_mode, &self.lock_until) {
            (None, None) => Ok(default_retention(view)),
            (Some(mode), Some(until)) => {
                if !matches!(mode.as_str(), "COMPLIANCE" | "GOVERNANCE") {
                    let text = "Unknown wormMode directive.";
                    return Err(invalid_argument(text, "x-amz-object-lock-mode", mode));
                }
                let retention = retention(mode, until)?;
                require_lock_of_new(view)?;
                Ok(Some(retention))
            }
            _ => Err(s3_error!(
                InvalidArgument,
                "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied."
            )),
        }
    }

    fn legal_hold(&self, view: &BucketView) -> S3Result<Option<bool>> {
        let Some(status) = &self.hold else { return Ok(None) };
        let on = hold(status).map_err(|_| {
            let text = "Legal Hold must be either of 'ON' or 'OFF'";
            invalid_argument(text, "x-amz-object-lock-legal-hold", status)
        })?;
        require_lock_of_new(view)?;
        Ok(Some(on))
    }
}

/// Who owns what a caller puts into a bucket.
pub(crate) fn owner_of(view: &BucketView, caller: &Principal) -> String {
    if view.owner_enforced || caller.user.is_none() {
        view.owner().to_owned()
    } else {
        caller.id().to_owned()
    }
}

/// Where lists say nothing, only those that say what is so anyway are taken.
pub(crate) fn check_acl_headers(view: &BucketView, acl: &AclHeaders) -> S3Result<()> {
    let harmless = matches!(acl.canned.as_deref(), Some("bucket-owner-full-control"));
    if view.owner_enforced && !acl.is_empty() && !harmless {
        return Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"));
    }
    Ok(())
}

/// The list that replaces one of a bucket or object of `owner`, by a document or by headers.
pub(crate) fn asked_acl(
    inner: &GatewayInner,
    view: &BucketView,
    headers: &AclHeaders,
    document: Option<&AccessControlPolicy>,
    owner: &str,
) -> S3Result<Acl> {
    check_acl_headers(view, headers)?;
    let new = match document {
        Some(_) if view.owner_enforced => {
            return Err(s3_error!(AccessControlListNotSupported, "The bucket does not allow ACLs"));
        }
        Some(document) if headers.is_empty() => acl::of_policy(inner, document, owner)?,
        Some(_) => return Err(s3_error!(UnexpectedContent)),
        None if headers.is_empty() => {
            return Err(s3_error!(
                MissingSecurityHeader,
                "Your request was missing a required header"
            ));
        }
        None => headers.acl(inner, Owners { owner, bucket: view.owner() })?,
    };
    if view.public_access.block_acls && new.is_public() {
        return Err(s3_error!(AccessDenied, "Public access is blocked"));
    }
    Ok(new)
}

pub(crate) fn require_lock(view: &BucketView) -> S3Result<()> {
    if view.settings.object_lock {
        Ok(())
    } else {
        Err(s3_error!(InvalidRequest, "Bucket is missing Object Lock Configuration"))
    }
}

/// As [`require_lock`], of a request to put an object.
fn require_lock_of_new(view: &BucketView) -> S3Result<()> {
    require_lock(view)
        .map_err(|_| s3_error!(InvalidRequest, "Bucket is missing ObjectLockConfiguration"))
}

/// A retention by its mode and end, which must lie ahead.
pub(crate) fn retention(mode: &str, until: &Timestamp) -> S3Result<Retention> {
    let compliance = match mode {
        "COMPLIANCE" => true,
        "GOVERNANCE" => false,
        _ => return Err(s3_error!(MalformedXML, "Unknown wormMode directive")),
    };
    let until_ms = ms_of(until);
    if until_ms <= now_ms() {
        return Err(s3_error!(InvalidArgument, "The retain until date must be in the future!"));
    }
    Ok(Retention { compliance, until_ms })
}

pub(crate) fn hold(status: &str) -> S3Result<bool> {
    match status {
        "ON" => Ok(true),
        "OFF" => Ok(false),
        _ => Err(s3_error!(MalformedXML)),
    }
}

fn default_retention(view: &BucketView) -> Option<Retention> {
    let rule = view.lock.as_ref()?.rule.as_ref()?.default_retention.as_ref()?;
    let days = rule
        .days
        .map(u64::try_from)
        .or(rule.years.map(|years| u64::try_from(years).map(|years| years * 365)))?
        .ok()?;
    let compliance = rule.mode.as_ref()?.as_str() == dto::ObjectLockRetentionMode::COMPLIANCE;
    Some(Retention { compliance, until_ms: now_ms().saturating_add(days.saturating_mul(DAY_MS)) })
}

impl Customer {
    pub(crate) fn is_given(&self) -> bool {
        self.algorithm.is_some() || self.key.is_some() || self.md5.is_some()
    }

    /// The key and its MD5 in base64.
    fn key(&self) -> S3Result<([u8; KEY_LEN], String)> {
        let (Some(algorithm), Some(key), Some(md5)) = (&self.algorithm, &self.key, &self.md5)
        else {
            return Err(s3_error!(
                InvalidArgument,
                "Requests with a customer key must have its algorithm, the key and its MD5"
            ));
        };
        if algorithm != "AES256" {
            return Err(s3_error!(
                InvalidArgument,
                "The requested encryption algorithm is not valid, must be AES256."
            ));
        }
        let bytes = BASE64_STANDARD
            .decode(key)
            .ok()
            .and_then(|bytes| <[u8; KEY_LEN]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| {
            s3_error!(InvalidArgument, "The secret key was invalid for the specified algorithm.")
        })?;
        if BASE64_STANDARD.encode(Md5::checksum(&bytes)) != *md5 {
            return Err(s3_error!(
                InvalidArgument,
                "The calculated MD5 hash of the key did not match the hash that was provided."
            ));
        }
        Ok((bytes, md5.clone()))
    }
}

const CONTEXT: &str = "key of a body";

impl Sse {
    /// How a new body is to be encrypted, by the request or else by the bucket.
    fn encryption(
        &self,
        inner: &GatewayInner,
        view: &BucketView,
    ) -> S3Result<Option<(Encryption, BodyKey)>> {
        if self.customer.is_given() {
            if self.algorithm.is_some() {
                return Err(s3_error!(
                    InvalidArgument,
                    "Server Side Encryption with Customer provided key is incompatible with the encryption method specified"
                ));
            }
            let (client, md5) = self.customer.key()?;
            let key = BodyKey { bytes: random() };
            let sealed = seal_with(&aead(&client), CONTEXT, &key.bytes);
            return Ok(Some((Encryption { holder: KeyHolder::Client { md5 }, sealed }, key)));
        }
        let (algorithm, key_id) = match (&self.algorithm, &self.key_id, &view.encryption) {
            (Some(algorithm), key_id, _) => (algorithm.as_str(), key_id.clone()),
            (None, Some(_), _) => {
                return Err(s3_error!(InvalidArgument, "A key id needs the algorithm aws:kms"));
            }
            (None, None, Some(default)) => {
                (default.sse_algorithm.as_str(), default.kms_master_key_id.clone())
            }
            (None, None, None) => return Ok(None),
        };
        let holder = match algorithm {
            dto::ServerSideEncryption::AES256 if key_id.is_none() => KeyHolder::Gateway,
            dto::ServerSideEncryption::AWS_KMS => {
                let id = key_id.filter(|id| !id.is_empty());
                KeyHolder::Named {
                    id: id.ok_or_else(|| {
                        s3_error!(InvalidArgument, "There is no default key: name one")
                    })?,
                }
            }
            _ => {
                return Err(s3_error!(
                    InvalidArgument,
                    "The encryption method specified is not supported"
                ));
            }
        };
        let key = BodyKey { bytes: random() };
        let sealed = match &holder {
            KeyHolder::Named { id } => {
                seal_with(&aead(&inner.master.named(id)), CONTEXT, &key.bytes)
            }
            _ => inner.master.seal(CONTEXT, &key.bytes),
        };
        Ok(Some((Encryption { holder, sealed }, key)))
    }
}

/// The key of a stored body, with the client's key where it was sealed with that.
pub(crate) fn open_key(
    inner: &GatewayInner,
    encryption: Option<&Encryption>,
    customer: &Customer,
) -> S3Result<Option<BodyKey>> {
    let Some(encryption) = encryption else {
        return if customer.is_given() {
            Err(s3_error!(
                InvalidRequest,
                "The encryption parameters are not applicable to this object."
            ))
        } else {
            Ok(None)
        };
    };
    let bytes = match &encryption.holder {
        KeyHolder::Client { md5 } => {
            if !customer.is_given() {
                let text = "The object was stored using a form of Server Side Encryption. The correct parameters must be provided to retrieve the object.";
                return Err(s3_error!(InvalidRequest, "{text}"));
            }
            let (client, given) = customer.key()?;
            let other = || {
                s3_error!(
                    InvalidRequest,
                    "The provided key is not the one that the object was encrypted with."
                )
            };
            let opened = (given == *md5)
                .then(|| open_with(&aead(&client), CONTEXT, &encryption.sealed))
                .flatten();
            opened.ok_or_else(other)?
        }
        _ if customer.is_given() => {
            return Err(s3_error!(
                InvalidRequest,
                "The encryption parameters are not applicable to this object."
            ));
        }
        KeyHolder::Gateway => inner
            .master
            .open(CONTEXT, &encryption.sealed)
            .ok_or_else(|| s3_error!(InternalError))?,
        KeyHolder::Named { id } => {
            open_with(&aead(&inner.master.named(id)), CONTEXT, &encryption.sealed)
                .ok_or_else(|| s3_error!(InternalError))?
        }
    };
    let bytes = bytes.try_into().map_err(|_| s3_error!(InternalError))?;
    Ok(Some(BodyKey { bytes }))
}

/// The bytes of a `Content-MD5`.
pub(crate) fn content_md5(text: Option<&str>) -> S3Result<Option<[u8; 16]>> {
    let Some(text) = text else { return Ok(None) };
    // The bits behind the last byte say nothing.
    let lenient = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    let bytes = GeneralPurpose::new(&alphabet::STANDARD, lenient).decode(text).ok();
    bytes.and_then(|bytes| bytes.try_into().ok()).map(Some).ok_or_else(|| {
        let error = s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid.");
        with_elements(error, &[("Content-MD5", text)])
    })
}

/// A time as HTTP writes it.
pub(crate) fn http_date(timestamp: &Timestamp) -> Option<String> {
    let mut text = Vec::new();
    timestamp.format(TimestampFormat::HttpDate, &mut text).ok()?;
    String::from_utf8(text).ok()
}
