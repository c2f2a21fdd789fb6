//! The library takes some requests that name an operation and a place which do not belong together for another
//! operation: they are refused. Called for each request (`head`).

use hyper::{Method, Request, StatusCode};
use s3s::{S3Error, S3Result, s3_error};

use crate::answers::error::{invalid_argument, named, with_elements};
use crate::request::form::is_form;
use crate::request::query::query_value;

/// Refuses those.
pub(crate) fn check<B>(request: &Request<B>) -> S3Result<()> {
    let query = request.uri().query().unwrap_or_default();
    let has = |name: &str| query_value(query, name).is_some();
    let path = request.uri().path().trim_start_matches('/');
    let object = path.split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let method = request.method();
    // Where the host names the bucket, forms go to the root.
    let form = is_form(request.headers());
    if *method != Method::PUT
        && let Some(source) = request.headers().get("x-amz-copy-source")
    {
        let text = "You can only specify a copy source header for copy requests.";
        let source = source.to_str().unwrap_or_default();
        return Err(invalid_argument(text, "x-amz-copy-source", source));
    }
    if *method == Method::POST && query.is_empty() && (object || (path.is_empty() && !form)) {
        return Err(not_allowed(method, if object { "OBJECT" } else { "SERVICE" }));
    }
    if *method == Method::POST && !object && query.is_empty() && !form {
        let text = "Bucket POST must be of the enclosure-type multipart/form-data";
        let error = named("PreconditionFailed", StatusCode::PRECONDITION_FAILED, text);
        return Err(with_elements(error, &[("Condition", text)]));
    }
    if *method == Method::PUT && object && has("uploadId") != has("partNumber") {
        if has("uploadId") {
            return Err(not_allowed(method, "UPLOAD"));
        }
        let text = "This operation does not accept partNumber without uploadId";
        let number = query_value(query, "partNumber").unwrap_or_default();
        return Err(invalid_argument(text, "partNumber", &number));
    }
    if *method == Method::GET && object && has("uploads") {
        let text = "Key is not expected for the GET method ?uploads subresource";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    if *method == Method::GET && object && has("versions") {
        let text = "There is no such thing as the ?versions sub-resource for a key";
        return Err(s3_error!(InvalidRequest, "{text}"));
    }
    Ok(())
}

/// A method that a kind of resource does not have.
fn not_allowed(method: &Method, resource: &str) -> S3Error {
    with_elements(
        s3_error!(MethodNotAllowed),
        &[("Method", method.as_str()), ("ResourceType", resource)],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: Method, uri: &str, header: Option<(&'static str, &str)>) -> String {
        let mut request = Request::builder().method(method).uri(uri);
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let checked = check(&request.body(()).unwrap());
        checked.err().map(|error| error.code().as_str().to_owned()).unwrap_or_default()
    }

    #[test]
    fn operations_keep_to_their_places() {
        let form = Some(("content-type", "multipart/form-data; boundary=x"));
        let source = Some(("x-amz-copy-source", "b/k"));
        for (method, uri, header, wanted) in [
            (Method::GET, "/", None, ""),
            (Method::POST, "/", None, "MethodNotAllowed"),
            (Method::POST, "/?delete", None, ""), // The host may name the bucket.
            (Method::POST, "/b", form, ""),
            (Method::POST, "/b?delete", None, ""),
            (Method::POST, "/b", Some(("content-type", "text/plain")), "PreconditionFailed"),
            (Method::POST, "/b/k?uploads", None, ""),
            (Method::POST, "/b/k", None, "MethodNotAllowed"),
            (Method::PUT, "/b/k?uploadId=1&partNumber=1", source, ""),
            (Method::PUT, "/b/k?uploadId=1", None, "MethodNotAllowed"),
            (Method::PUT, "/b/k?partNumber=1", None, "InvalidArgument"),
            (Method::GET, "/b?uploads", None, ""),
            (Method::GET, "/b/k?uploads", None, "InvalidRequest"),
            (Method::GET, "/b/k?versions", None, "InvalidRequest"),
            (Method::GET, "/b/k?versionId=1&partNumber=1", None, ""),
            (Method::DELETE, "/b/k", source, "InvalidArgument"),
        ] {
            assert_eq!(refused(method.clone(), uri, header), wanted, "{method} {uri}");
        }
    }
}
