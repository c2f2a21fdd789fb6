//! Uploads by HTML forms: fields, a policy that a user has signed, and a file that passes as it comes.

mod parser;
mod policy;

use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION};
use hyper::{HeaderMap, Request, Response, StatusCode};
use ring::hmac;
use s3s::dto::{
    ObjectCannedACL, ObjectLockLegalHoldStatus, ObjectLockMode, PutObjectInput, PutObjectOutput,
    ServerSideEncryption, StorageClass, StreamingBlob, Tagging, Timestamp, TimestampFormat,
};
use s3s::xml::{Deserialize, Deserializer};
use s3s::{Body, S3Error, S3Result, s3_error};
use varve_object::{ChecksumKind, Select};

use crate::answers::error::{invalid_argument, with_elements};
use crate::body::receive::Length;
use crate::body::sums;
use crate::compat::signed::{check_credential, is_moment};
use crate::compat::unframed::BodyOutcome;
use crate::gateway::GatewayInner;
use crate::identity::access::{RequestTarget, extra_actions, signer};
use crate::identity::chain;
use crate::identity::principal::{Peer, Principal};
use crate::operations::{RequestOrigin, put};
use crate::request::access_log::number;
use crate::request::account::RequestNotes;
use crate::request::query::{encode, tags_of_set};
pub(crate) use parser::FIELDS_BYTES_MAX;
use parser::FormFields;
use policy::FormPolicy;

/// The fields of a form, by lower-case name.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    all: Vec<(String, String)>,
}

impl Fields {
    fn get(&self, name: &str) -> Option<&str> {
        self.all.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    fn owned(&self, name: &str) -> Option<String> {
        self.get(name).map(str::to_owned)
    }
}

/// Whether a request carries a form.
pub(crate) fn is_form(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| {
        value.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
    })
}

/// Takes a form for a bucket.
pub(crate) async fn post(
    inner: &GatewayInner,
    bucket: &str,
    request: Request<Body>,
) -> S3Result<Response<Body>> {
    let host = request.headers().get(HOST).cloned();
    let peer = request.extensions().get::<Peer>().copied();
    let noted = request.extensions().get::<RequestNotes>().cloned().unwrap_or_default();
    // The file is shorter than the form it stands in.
    let form_len = number(request.headers(), CONTENT_LENGTH);
    let len = Length::AtMost(form_len.ok_or_else(|| s3_error!(MissingContentLength))?);
    let mut form = FormFields::read(request).await?;
    let key = form.fields.owned("key").ok_or_else(|| {
        s3_error!(InvalidArgument, "Bucket POST must contain a field named 'key'.")
    })?;
    let key = key.replace("${filename}", &form.filename);
    form.fields
        .all
        .iter_mut()
        .filter(|(name, _)| name == "key")
        .for_each(|(_, value)| value.clone_from(&key));
    let (caller, policy) = signed(inner, bucket, &form.fields)?;
    noted.note(inner.figures.operation("PostObject"), &caller);
    let fields = std::mem::take(&mut form.fields);
    let view = inner.view(bucket).await?;
    let mut headers = headers_of(&fields);
    headers.extend(host.map(|host| (HOST, host)));
    let origin = RequestOrigin::new(caller, headers, peer);
    let target = RequestTarget { view: &view, key: Some(&key), select: Select::Newest };
    for action in std::iter::once("s3:PutObject").chain(extra_actions(origin.headers())) {
        origin.authorize(inner, target, action).await?;
    }
    let range = policy.as_ref().and_then(|policy| policy.length);
    let mut input = input(bucket, &key, &fields)?;
    input.body = Some(form.into_file(range));
    let output = put::put(inner, &origin, input, len, BodyOutcome::default()).await?;
    let object = FormOutcome { bucket, key: &key, location: origin.location(inner, bucket, &key) };
    answer(&fields, &object, &output)
}

/// Fields, name of the file and the file of a form, for fuzzing.
pub(crate) async fn read(
    request: Request<Body>,
) -> S3Result<(Vec<(String, String)>, String, StreamingBlob)> {
    let mut form = FormFields::read(request).await?;
    let fields = std::mem::take(&mut form.fields.all);
    let filename = form.filename.clone();
    Ok((fields, filename, form.into_file(None)))
}

/// Whether a policy lets fields pass, for fuzzing; the lengths of a file that it allows.
pub(crate) fn passes(
    policy: &str,
    bucket: &str,
    fields: &[(String, String)],
) -> Option<Option<(u64, u64)>> {
    let policy = FormPolicy::parse(policy).ok()?;
    policy.check(bucket, &Fields { all: fields.to_vec() }).ok()?;
    Some(policy.length)
}

/// What came of a form.
struct FormOutcome<'a> {
    bucket: &'a str,
    key: &'a str,
    location: String,
}

/// A field that a signature needs.
fn required<'a>(fields: &'a Fields, name: &str) -> S3Result<&'a str> {
    fields.get(name).filter(|value| !value.is_empty()).ok_or_else(|| {
        let text = format!(
            "Bucket POST must contain a field named '{name}'.  If it is specified, please check the order of the fields."
        );
        invalid_argument(&text, name, "")
    })
}

/// The fields of a signature of the fourth version, as they must be written; its scope.
fn scope(fields: &Fields) -> S3Result<[&str; 5]> {
    for name in ["x-amz-signature", "x-amz-date", "x-amz-algorithm"] {
        required(fields, name)?;
    }
    let scope = required(fields, "x-amz-credential")?;
    let algorithm = fields.get("x-amz-algorithm").unwrap_or_default();
    if algorithm != "AWS4-HMAC-SHA256" {
        let text = "Only AWS4-HMAC-SHA256 is supported";
        return Err(invalid_argument(text, "X-Amz-Algorithm", algorithm));
    }
    let date = fields.get("x-amz-date").unwrap_or_default();
    if !is_moment(date) {
        let text = "X-Amz-Date must be formated via ISO8601 Long format";
        return Err(invalid_argument(text, "X-Amz-Date", date));
    }
    let refused = |text: String| invalid_argument(&text, "x-amz-credential", scope);
    check_credential(scope).map_err(refused)?;
    <[&str; 5]>::try_from(scope.split('/').collect::<Vec<_>>())
        .map_err(|_| refused("the Credential is mal-formed".to_owned()))
}

/// A signature that is not that of the policy.
fn mismatch(access_key: &str, policy: &str, signature: &str) -> S3Error {
    let text = "The request signature we calculated does not match the signature you provided. Check your key and signing method.";
    let bytes: Vec<String> = policy.bytes().map(|byte| format!("{byte:02x}")).collect();
    with_elements(
        s3_error!(SignatureDoesNotMatch, "{text}"),
        &[
            ("AWSAccessKeyId", access_key),
            ("StringToSign", policy),
            ("SignatureProvided", signature),
            ("StringToSignBytes", &bytes.join(" ")),
        ],
    )
}

/// Who signed the form; a form without a policy is nobody's.
fn signed(
    inner: &GatewayInner,
    bucket: &str,
    fields: &Fields,
) -> S3Result<(Principal, Option<FormPolicy>)> {
    let fourth = ["x-amz-signature", "x-amz-credential", "x-amz-date", "x-amz-algorithm"];
    let fourth = fourth.iter().any(|name| fields.get(name).is_some());
    let text = match fields.get("policy") {
        None if !fourth => return Ok((Principal::default(), None)),
        _ if fourth => fields.get("policy").map_or_else(|| required(fields, "policy"), Ok)?,
        text => text.unwrap_or_default(),
    };
    let missing =
        || s3_error!(InvalidArgument, "Bucket POST must contain the fields of its signature.");
    let known = match fourth {
        true => {
            let [access_key, date, region, service, end] = scope(fields)?;
            let signature = required(fields, "x-amz-signature")?;
            let (known, secret) = signer(inner, access_key)?;
            let mut key = hmac::sign(
                &hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes()),
                date.as_bytes(),
            );
            for part in [region, service, end] {
                key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), part.as_bytes());
            }
            let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_ref());
            let good = chain::bytes(signature)
                .is_some_and(|bytes| hmac::verify(&key, text.as_bytes(), &bytes).is_ok());
            if !good {
                return Err(mismatch(access_key, text, signature));
            }
            known
        }
        // The older way, which forms of the web still use: the policy has an end, so what is signed cannot be used for
        // ever.
        false => {
            let signature = fields.get("signature").ok_or_else(missing)?;
            let access_key = fields.get("awsaccesskeyid").ok_or_else(missing)?;
            let (known, secret) = signer(inner, access_key)?;
            let wrong = || mismatch(access_key, text, signature);
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, signature)
                .map_err(|_| wrong())?;
            hmac::verify(&key, text.as_bytes(), &bytes).map_err(|_| wrong())?;
            known
        }
    };
    let policy = FormPolicy::parse(text)?;
    policy.check(bucket, fields)?;
    Ok((Principal { user: Some(known), ..Principal::default() }, Some(policy)))
}

/// Fields as the headers they stand for, for conditions of policies.
fn headers_of(fields: &Fields) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &fields.all {
        let name = match name.as_str() {
            "acl" => "x-amz-acl",
            "policy" | "signature" | "x-amz-signature" | "file" | "tagging" => continue,
            name => name,
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), value.parse()) {
            headers.insert(name, value);
        }
    }
    headers
}

/// The fields as a request to put.
fn input(bucket: &str, key: &str, fields: &Fields) -> S3Result<PutObjectInput> {
    let text = |name: &str| fields.owned(name);
    let date = |name: &str, format: TimestampFormat| {
        let parse = |text: &str| {
            Timestamp::parse(format, text)
                .map_err(|_| s3_error!(InvalidArgument, "Field {name} is not a date"))
        };
        fields.get(name).map(parse).transpose()
    };
    let metadata = fields.all.iter().filter_map(|(name, value)| {
        Some((name.strip_prefix("x-amz-meta-")?.to_owned(), value.clone()))
    });
    let metadata: s3s::dto::Metadata = metadata.collect();
    Ok(PutObjectInput {
        acl: text("acl").map(ObjectCannedACL::from),
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        cache_control: text("cache-control"),
        content_disposition: text("content-disposition"),
        content_encoding: text("content-encoding"),
        content_language: text("content-language"),
        content_type: text("content-type"),
        expires: date("expires", TimestampFormat::HttpDate)?,
        grant_full_control: text("x-amz-grant-full-control"),
        grant_read: text("x-amz-grant-read"),
        grant_read_acp: text("x-amz-grant-read-acp"),
        grant_write_acp: text("x-amz-grant-write-acp"),
        metadata: (!metadata.is_empty()).then_some(metadata),
        object_lock_legal_hold_status: text("x-amz-object-lock-legal-hold")
            .map(ObjectLockLegalHoldStatus::from),
        object_lock_mode: text("x-amz-object-lock-mode").map(ObjectLockMode::from),
        object_lock_retain_until_date: date(
            "x-amz-object-lock-retain-until-date",
            TimestampFormat::DateTime,
        )?,
        sse_customer_algorithm: text("x-amz-server-side-encryption-customer-algorithm"),
        sse_customer_key: text("x-amz-server-side-encryption-customer-key"),
        sse_customer_key_md5: text("x-amz-server-side-encryption-customer-key-md5"),
        ssekms_key_id: text("x-amz-server-side-encryption-aws-kms-key-id"),
        server_side_encryption: text("x-amz-server-side-encryption")
            .map(ServerSideEncryption::from),
        storage_class: text("x-amz-storage-class").map(StorageClass::from),
        tagging: fields.get("tagging").map(tags).transpose()?,
        website_redirect_location: text("x-amz-website-redirect-location"),
        ..PutObjectInput::default()
    })
}

/// A document of tags as the header has them.
fn tags(xml: &str) -> S3Result<String> {
    let tagging = Tagging::deserialize(&mut Deserializer::new(xml.as_bytes()))
        .map_err(|_| s3_error!(MalformedXML))?;
    let tags = tags_of_set(&tagging.tag_set, 10)?;
    Ok(tags
        .iter()
        .map(|(name, value)| format!("{}={}", encode(name), encode(value)))
        .collect::<Vec<_>>()
        .join("&"))
}

fn answer(
    fields: &Fields,
    object: &FormOutcome<'_>,
    output: &PutObjectOutput,
) -> S3Result<Response<Body>> {
    let FormOutcome { bucket, key, location } = object;
    let etag = output.e_tag.as_ref().map(|tag| tag.value().to_owned()).unwrap_or_default();
    let mut response = Response::new(Body::empty());
    let redirect = fields.get("success_action_redirect").or(fields.get("redirect"));
    if let Some(url) =
        redirect.filter(|url| url.starts_with("http://") || url.starts_with("https://"))
    {
        let join = if url.contains('?') { '&' } else { '?' };
        let url =
            format!("{url}{join}bucket={}&key={}&etag=%22{etag}%22", encode(bucket), encode(key));
        let url = url
            .parse()
            .map_err(|_| s3_error!(InvalidArgument, "The address to redirect to makes no sense"))?;
        *response.status_mut() = StatusCode::SEE_OTHER;
        response.headers_mut().insert(LOCATION, url);
        return Ok(response);
    }
    let headers = response.headers_mut();
    if let Ok(tag) = format!("\"{etag}\"").parse() {
        headers.insert(hyper::header::ETAG, tag);
    }
    let sums = [
        (ChecksumKind::Crc32, &output.checksum_crc32),
        (ChecksumKind::Crc32c, &output.checksum_crc32c),
        (ChecksumKind::Crc64Nvme, &output.checksum_crc64nvme),
        (ChecksumKind::Sha1, &output.checksum_sha1),
        (ChecksumKind::Sha256, &output.checksum_sha256), // And those that borrow it.
    ];
    for (kind, sum) in sums {
        let name = HeaderName::from_bytes(sums::header(kind).as_bytes());
        let value = sum.as_deref().and_then(|sum| HeaderValue::from_str(sum).ok());
        headers.extend(name.ok().zip(value));
    }
    if let Some(version) = output.version_id.as_ref().and_then(|version| version.parse().ok()) {
        headers.insert(s3s::header::X_AMZ_VERSION_ID, version);
    }
    if let Ok(location) = location.parse() {
        headers.insert(LOCATION, location);
    }
    match fields.get("success_action_status") {
        Some("200") => {}
        Some("201") => {
            let escaped = crate::request::query::escape_xml;
            let text = format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse><Location>{location}</Location><Bucket>{bucket}</Bucket>\
                 <Key>{}</Key><ETag>&quot;{etag}&quot;</ETag></PostResponse>",
                escaped(key)
            );
            headers
                .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/xml"));
            *response.status_mut() = StatusCode::CREATED;
            *response.body_mut() = Body::from(text);
        }
        _ => *response.status_mut() = StatusCode::NO_CONTENT,
    }
    Ok(response)
}
