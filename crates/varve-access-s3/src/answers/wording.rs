//! What error documents say, by code, in the words that clients know. Called where an answer leaves (`front`).
//!
//! WORDING-1: a code that always means one thing always has one text, whether the protocol library or we refused.

use std::borrow::Cow;

const BEFORE: &str = "<Message>";
const AFTER: &str = "</Message>";

/// The document with its code's text: in place of what it says, or, for a code of many meanings, only where it says
/// nothing (WORDING-1).
pub(crate) fn reword(document: &str) -> Cow<'_, str> {
    let Some(code) = between(document, "<Code>", "</Code>") else { return document.into() };
    let said = between(document, BEFORE, AFTER);
    let text = match said {
        None => only(code).or_else(|| usual(code)),
        Some(_) => only(code),
    };
    let Some(text) = text else { return document.into() };
    let message = format!("{BEFORE}{text}{AFTER}");
    match said {
        Some(said) => document.replacen(&format!("{BEFORE}{said}{AFTER}"), &message, 1).into(),
        None => document.replacen("</Code>", &format!("</Code>{message}"), 1).into(),
    }
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    Some(text.split_once(begin)?.1.split_once(end)?.0)
}

/// The one text of a code that has one meaning.
fn only(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessControlListNotSupported" => "The bucket does not allow ACLs.",
        "BucketAlreadyExists" => {
            "The requested bucket name is not available. The bucket name can not be an existing collection, and the bucket namespace is shared by all users of the system. Please select a different name and try again."
        }
        "BucketAlreadyOwnedByYou" => {
            "Your previous request to create the named bucket succeeded and you already own it."
        }
        "EntityTooLarge" => "Your proposed upload exceeds the maximum allowed object size.",
        "EntityTooSmall" => "Your proposed upload is smaller than the minimum allowed size",
        "InternalError" => "We encountered an internal error, please try again.",
        "InvalidAccessKeyId" => "The AWS Access Key Id you provided does not exist in our records.",
        "InvalidBucketName" => "The specified bucket is not valid.",
        "InvalidDigest" => "The Content-Md5 you specified is not valid.",
        "InvalidLocationConstraint" => "The specified location-constraint is not valid",
        "InvalidPartOrder" => {
            "The list of parts was not in ascending order. Parts must be ordered by part number."
        }
        "KeyTooLongError" => "Your key is too long.",
        "MalformedACLError" | "MalformedXML" => {
            "The XML you provided was not well-formed or did not validate against our published schema."
        }
        "MalformedPOSTRequest" => {
            "The body of your POST request is not well-formed multipart/form-data."
        }
        "MetadataTooLarge" => "Your metadata headers exceed the maximum allowed metadata size",
        "MethodNotAllowed" => "The specified method is not allowed against this resource.",
        "MissingSecurityHeader" => "Your request was missing a required header.",
        "MissingContentLength" => "You must provide the Content-Length HTTP header.",
        "NoSuchBucket" => "The specified bucket does not exist.",
        "NoSuchBucketPolicy" => "The bucket policy does not exist.",
        "NoSuchCORSConfiguration" => "The CORS configuration does not exist",
        "NoSuchKey" => "The specified key does not exist.",
        "NoSuchObjectLockConfiguration" => {
            "The specified object does not have a ObjectLock configuration."
        }
        "NoSuchTagSet" => "The TagSet does not exist.",
        "NoSuchUpload" => {
            "The specified multipart upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed."
        }
        "NoSuchVersion" => "The specified version does not exist.",
        "ObjectLockConfigurationNotFoundError" => {
            "Object Lock configuration does not exist for this bucket."
        }
        "OwnershipControlsNotFoundError" => "The bucket ownership controls were not found.",
        "PreconditionFailed" => "At least one of the pre-conditions you specified did not hold.",
        "RequestTimeTooSkewed" => {
            "The difference between the request time and the current time is too large."
        }
        "SlowDown" => "Please reduce your request rate.",
        "UnexpectedContent" => "This request does not support content.",
        "XAmzContentSHA256Mismatch" => {
            "The provided 'x-amz-content-sha256' header does not match what was computed."
        }
        _ => return None,
    })
}

/// The text of a code of several meanings where nothing more is said.
fn usual(code: &str) -> Option<&'static str> {
    Some(match code {
        "AccessDenied" => "Access Denied.",
        "BucketNotEmpty" => "The bucket you tried to delete is not empty.",
        "BadDigest" => "The Content-MD5 you specified did not match what we received.",
        "IncompleteBody" => "The request body terminated unexpectedly",
        "InvalidPart" => {
            "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag."
        }
        "InvalidRange" => "The requested range is not satisfiable",
        "InvalidRequest" => "Invalid Request.",
        "NotImplemented" => "A header you provided implies functionality that is not implemented.",
        "SignatureDoesNotMatch" => {
            "The request signature we calculated does not match the signature you provided. Check your key and signing method."
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_one_meaning_has_one_text() {
        let ours = "<Error><Code>NoSuchBucket</Code><Message>no bucket `b`</Message></Error>";
        let theirs = "<Error><Code>NoSuchBucket</Code></Error>";
        let wanted = "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist.</Message></Error>";
        assert_eq!(reword(ours), wanted);
        assert_eq!(reword(theirs), wanted);
    }

    #[test]
    fn a_code_of_many_meanings_keeps_its_text() {
        let said =
            "<Error><Code>AccessDenied</Code><Message>Public access is blocked</Message></Error>";
        assert_eq!(reword(said), said);
        let silent = "<Error><Code>AccessDenied</Code></Error>";
        assert!(reword(silent).contains("<Message>Access Denied.</Message>"));
    }

    #[test]
    fn what_is_no_error_document_stays() {
        for text in ["", "<Error></Error>", "<Error><Code>", "<Error><Code>Other</Code></Error>"] {
            assert_eq!(reword(text), text);
        }
    }
}
