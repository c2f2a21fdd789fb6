//! The configuration of a bucket as a website: checked, kept, given back. `website` serves by it.

use hyper::StatusCode;
use s3s::dto::{
    Condition, DeleteBucketWebsiteInput, DeleteBucketWebsiteOutput, GetBucketWebsiteInput,
    GetBucketWebsiteOutput, Protocol, PutBucketWebsiteInput, PutBucketWebsiteOutput, Redirect,
    WebsiteConfiguration,
};
use s3s::{S3Error, S3Request, S3Result, s3_error};
use varve_object::Document;

use super::config::{DOCUMENT_BYTES_MAX, put, remove};
use super::{Answer, answer};
use crate::answers::error::{invalid_argument, named, with_elements};
use crate::bucket::view::to_xml;
use crate::gateway::GatewayInner;

/// Most rules of a website.
const RULES_MAX: usize = 50;

pub(crate) async fn put_website(
    inner: &GatewayInner,
    request: S3Request<PutBucketWebsiteInput>,
) -> Answer<PutBucketWebsiteOutput> {
    let configuration = &request.input.website_configuration;
    check(configuration)?;
    let document = to_xml(configuration)?;
    if document.len() > DOCUMENT_BYTES_MAX {
        let text = "Your request was too big.";
        let error = named("MaxMessageLengthExceeded", StatusCode::BAD_REQUEST, text);
        let most = DOCUMENT_BYTES_MAX.to_string();
        return Err(with_elements(error, &[("MaxMessageLengthBytes", &most)]));
    }
    put(inner, &request.input.bucket, Document::Website, document).await?;
    answer(PutBucketWebsiteOutput {})
}

pub(crate) async fn get_website(
    inner: &GatewayInner,
    request: S3Request<GetBucketWebsiteInput>,
) -> Answer<GetBucketWebsiteOutput> {
    let view = inner.view(&request.input.bucket).await?;
    let found = view.website.clone().ok_or_else(|| no_website(&request.input.bucket))?;
    answer(GetBucketWebsiteOutput {
        error_document: found.error_document,
        index_document: found.index_document,
        redirect_all_requests_to: found.redirect_all_requests_to,
        routing_rules: found.routing_rules,
    })
}

pub(crate) async fn delete_website(
    inner: &GatewayInner,
    request: S3Request<DeleteBucketWebsiteInput>,
) -> Answer<DeleteBucketWebsiteOutput> {
    remove(inner, &request.input.bucket, Document::Website).await?;
    answer(DeleteBucketWebsiteOutput {})
}

/// A bucket that is no website.
pub(crate) fn no_website(bucket: &str) -> S3Error {
    let text = "The specified bucket does not have a website configuration";
    let error = named("NoSuchWebsiteConfiguration", StatusCode::NOT_FOUND, text);
    with_elements(error, &[("BucketName", bucket)])
}

fn check(configuration: &WebsiteConfiguration) -> S3Result<()> {
    let rules = configuration.routing_rules.as_deref();
    if let Some(elsewhere) = &configuration.redirect_all_requests_to {
        if configuration.index_document.is_some()
            || configuration.error_document.is_some()
            || rules.is_some()
            || elsewhere.host_name.is_empty()
        {
            return Err(s3_error!(MalformedXML));
        }
        return check_protocol(elsewhere.protocol.as_ref());
    }
    let suffix = configuration.index_document.as_ref().map(|index| index.suffix.as_str());
    let suffix = suffix.ok_or_else(|| {
        let text =
            "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty";
        invalid_argument(text, "IndexDocument", "null")
    })?;
    if suffix.is_empty() || suffix.contains('/') {
        let text = "The IndexDocument Suffix is not well formed";
        return Err(invalid_argument(text, "IndexDocument", suffix));
    }
    if configuration.error_document.as_ref().is_some_and(|error| error.key.is_empty()) {
        let text = "The ErrorDocument Key is not well formed";
        return Err(invalid_argument(text, "ErrorDocument", ""));
    }
    if let Some(count) = rules.map(<[_]>::len).filter(|count| *count > RULES_MAX) {
        return Err(s3_error!(
            InvalidRequest,
            "{count} routing rules provided, the number of routing rules in a website configuration is limited to {RULES_MAX}."
        ));
    }
    for rule in rules.unwrap_or_default() {
        rule.condition.as_ref().map_or(Ok(()), check_condition)?;
        check_redirect(&rule.redirect)?;
    }
    Ok(())
}

fn check_condition(condition: &Condition) -> S3Result<()> {
    if condition.key_prefix_equals.is_none() && condition.http_error_code_returned_equals.is_none()
    {
        return Err(s3_error!(MalformedXML));
    }
    match condition.http_error_code_returned_equals.as_deref().map(code).transpose()? {
        Some(code) if !matches!(code, 400..=417 | 500..=505) => Err(s3_error!(
            InvalidRequest,
            "The provided HTTP error code ({code}) is not valid. Valid codes are 4XX or 5XX."
        )),
        _ => Ok(()),
    }
}

fn check_redirect(redirect: &Redirect) -> S3Result<()> {
    let Redirect {
        host_name,
        http_redirect_code,
        protocol,
        replace_key_prefix_with,
        replace_key_with,
    } = redirect;
    if host_name.is_none()
        && http_redirect_code.is_none()
        && protocol.is_none()
        && replace_key_prefix_with.is_none()
        && replace_key_with.is_none()
    {
        return Err(s3_error!(MalformedXML));
    }
    if replace_key_prefix_with.is_some() && replace_key_with.is_some() {
        let text = "You can only define ReplaceKeyPrefix or ReplaceKey but not both.";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    check_protocol(protocol.as_ref())?;
    match http_redirect_code.as_deref().map(code).transpose()? {
        Some(code) if !matches!(code, 301..=305 | 307 | 308) => Err(s3_error!(
            InvalidRequest,
            "The provided HTTP redirect code ({code}) is not valid. Valid codes are 3XX except 300."
        )),
        _ => Ok(()),
    }
}

fn code(text: &str) -> S3Result<u16> {
    text.parse().map_err(|_| s3_error!(MalformedXML))
}

fn check_protocol(protocol: Option<&Protocol>) -> S3Result<()> {
    match protocol.map(Protocol::as_str) {
        None | Some(Protocol::HTTP | Protocol::HTTPS) => Ok(()),
        Some(_) => {
            let text = "Invalid protocol, protocol can be http or https. If not defined the protocol will be selected automatically.";
            Err(s3_error!(InvalidRequest, "{text}"))
        }
    }
}
