//! The library knows five kinds of checksums: those of the others go through it in a field that it has.
//!
//! CHECKSUM-NAMES-1: one of the others stands in the field for SHA-256 behind its name and a colon, which base64 has
//! not (`sums`), and gets its own name where a document comes in ([`into_known`]) or an answer leaves
//! ([`rename_header`], [`rename_elements`]).

use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use hyper::{HeaderMap, Response};
use s3s::Body;
use varve_object::ChecksumKind;

use crate::body::sums::{PREFIX, name};

const BORROWED: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");

/// Kinds that the library has no fields for.
fn foreign() -> impl Iterator<Item = &'static str> {
    let known = |kind: &ChecksumKind| {
        matches!(
            kind,
            ChecksumKind::Crc32
                | ChecksumKind::Crc32c
                | ChecksumKind::Crc64Nvme
                | ChecksumKind::Sha1
                | ChecksumKind::Sha256
        )
    };
    ChecksumKind::ALL.into_iter().filter(move |kind| !known(kind)).map(name)
}

/// A document of a client as the library reads it. CHECKSUM-NAMES-1.
pub(crate) fn into_known(document: &str) -> String {
    foreign().fold(document.to_owned(), |document, name| {
        document
            .replace(&format!("<Checksum{name}>"), &format!("<ChecksumSHA256>{name}:"))
            .replace(&format!("</Checksum{name}>"), "</ChecksumSHA256>")
    })
}

/// Gives a checksum in the headers of an answer its own name. CHECKSUM-NAMES-1.
pub(crate) fn rename_header(headers: &mut HeaderMap) {
    let borrowed = headers.get(BORROWED).and_then(|value| value.to_str().ok());
    let Some((name, value)) = borrowed.and_then(|value| value.split_once(':')) else { return };
    let name = HeaderName::try_from(format!("{PREFIX}{}", name.to_ascii_lowercase()));
    let own = name.ok().zip(HeaderValue::from_str(value).ok());
    headers.remove(BORROWED);
    headers.extend(own);
}

/// Gives the checksums in the document of an answer their own names. CHECKSUM-NAMES-1.
pub(crate) fn rename_elements(response: &mut Response<Body>) {
    let Some(bytes) = response.body().bytes() else { return };
    let Ok(text) = std::str::from_utf8(&bytes) else { return };
    if let Some(text) = renamed(text) {
        *response.body_mut() = Body::from(text);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
}

/// A document with checksums under their own names; none if it has them already.
fn renamed(document: &str) -> Option<String> {
    let (open, close) = ("<ChecksumSHA256>", "</ChecksumSHA256>");
    let mut rest = document;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(open) {
        let (text, behind) = after.split_once(close)?;
        out.push_str(before);
        match text.split_once(':') {
            Some((name, value)) => {
                out.push_str(&format!("<Checksum{name}>{value}</Checksum{name}>"));
            }
            None => out.extend([open, text, close]),
        }
        rest = behind;
    }
    (!out.is_empty()).then(|| out + rest)
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use s3s::dto::CompletedPart;

    use super::*;
    use crate::body::sums::{Hasher, header, of_completed, part};

    fn sum(kind: ChecksumKind) -> Vec<u8> {
        let mut hasher = Hasher::new(kind);
        hasher.update(b"a");
        hasher.finish()
    }

    /// CHECKSUM-NAMES-1.
    #[test]
    fn foreign_kinds_come_in_and_leave_under_their_names() {
        let document = "<Part><ChecksumMD5>YQ==</ChecksumMD5><ChecksumXXHASH128>Yg==</ChecksumXXHASH128></Part>";
        let known = into_known(document);
        assert!(known.contains("<ChecksumSHA256>MD5:YQ==</ChecksumSHA256>"));
        assert_eq!(renamed(&known).unwrap(), document);
        let plain = "<Part><ChecksumSHA256>YQ==</ChecksumSHA256></Part>";
        assert_eq!(into_known(plain), plain);
        assert_eq!(renamed(plain).unwrap(), plain);
        assert!(renamed("<Part/>").is_none());
        for kind in ChecksumKind::ALL {
            let text = BASE64_STANDARD.encode(sum(kind));
            if let Some(value) = part(Some(kind), &sum(kind)).checksum_sha256 {
                let mut headers = HeaderMap::from_iter([(BORROWED, value.parse().unwrap())]);
                rename_header(&mut headers);
                assert_eq!(headers.len(), 1);
                assert_eq!(headers[&header(kind)], text.as_str());
            }
            let document = into_known(&format!("<Checksum{}>", name(kind)));
            let field =
                document.strip_prefix("<ChecksumSHA256>").unwrap_or_default().to_owned() + &text;
            let completed =
                CompletedPart { checksum_sha256: Some(field), ..CompletedPart::default() };
            if matches!(kind, ChecksumKind::Sha256) || foreign().any(|known| known == name(kind)) {
                assert_eq!(of_completed(&completed).unwrap(), Some((kind, sum(kind))));
            }
        }
    }
}
