//! Percent-encoding, query strings, and the small texts of headers.

use s3s::{S3Result, s3_error};

/// Most tags of an object.
const TAGS_MAX: usize = 10;

/// The first value of a name in a query string; both may be percent-encoded there.
pub(crate) fn query_value(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let (_, value) = pairs.find(|(key, _)| decode(key).is_some_and(|key| key == name))?;
    decode(value)
}

/// A query for the log: without signatures, tokens and keys of clients.
pub(crate) fn redacted(query: &str) -> String {
    const SECRET: [&str; 5] = ["signature", "token", "credential", "accesskeyid", "customer-key"];
    let pairs = query.split('&').map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = decode(name).unwrap_or_default().to_ascii_lowercase();
        if !value.is_empty() && SECRET.iter().any(|secret| plain.contains(secret)) {
            format!("{name}=…")
        } else {
            pair.to_owned()
        }
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// Undoes percent-encoding; `+` is a space.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        match first {
            b'+' => bytes.push(b' '),
            b'%' => {
                let (digits, tail) = rest.split_first_chunk::<2>()?;
                let digits = std::str::from_utf8(digits)
                    .ok()
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = tail;
            }
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Percent-encodes all but letters, digits and `-_.~/`, as listings do.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A text within XML.
pub(crate) fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Tags of a header such as `a=1&b=2`.
pub(crate) fn tags_of_header(text: &str) -> S3Result<Vec<(String, String)>> {
    let invalid = || {
        s3_error!(
            InvalidArgument,
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters without tag name duplicates."
        )
    };
    let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(name).ok_or_else(invalid)?, decode(value).ok_or_else(invalid)?))
    });
    let mut tags = pairs.collect::<S3Result<Vec<_>>>()?;
    // A query string has no order.
    tags.sort();
    let twice = tags.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0));
    if twice || tags.iter().any(|(name, _)| name.is_empty()) {
        return Err(invalid());
    }
    check_tags(tags, TAGS_MAX)
}

/// Tags of a document.
pub(crate) fn tags_of_set(set: &[s3s::dto::Tag], most: usize) -> S3Result<Vec<(String, String)>> {
    let tags = set
        .iter()
        .map(|tag| (tag.key.clone().unwrap_or_default(), tag.value.clone().unwrap_or_default()));
    check_tags(tags.collect(), most)
}

/// Tags for an answer.
pub(crate) fn tag_set(tags: &[(String, String)]) -> Vec<s3s::dto::Tag> {
    tags.iter()
        .map(|(key, value)| s3s::dto::Tag { key: Some(key.clone()), value: Some(value.clone()) })
        .collect()
}

fn check_tags(tags: Vec<(String, String)>, most: usize) -> S3Result<Vec<(String, String)>> {
    if tags.len() > most {
        return Err(s3_error!(InvalidTag, "Tags cannot be greater than {most}"));
    }
    for (index, (name, value)) in tags.iter().enumerate() {
        if name.is_empty() || name.chars().count() > 128 || !name.chars().all(is_of_tag) {
            return Err(s3_error!(InvalidTag, "The TagKey you have provided is invalid"));
        }
        if value.chars().count() > 256 || !value.chars().all(is_of_tag) {
            return Err(s3_error!(InvalidTag, "The TagValue you have provided is invalid"));
        }
        if tags.iter().take(index).any(|(other, _)| other == name) {
            return Err(s3_error!(InvalidTag, "Cannot provide multiple Tags with the same key"));
        }
    }
    Ok(tags)
}

/// Whether tags may have it in their names and values.
fn is_of_tag(letter: char) -> bool {
    letter.is_alphanumeric() || letter.is_whitespace() || "+-=._:/@".contains(letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_survive_encoding() {
        for text in ["", "a b+c", "é/ü", "%", "\u{1}\n"] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
        assert_eq!(decode("%f"), None);
        assert_eq!(decode("%ff"), None, "not UTF-8");
        assert_eq!(decode("%+1"), None);
        assert_eq!(query_value("a=1&b&c=x%20y", "c").as_deref(), Some("x y"));
        assert_eq!(query_value("a=1&b", "b").as_deref(), Some(""));
        assert_eq!(
            query_value("version%49d=7", "versionId").as_deref(),
            Some("7"),
            "as it is used"
        );
    }

    #[test]
    fn logs_show_no_secrets() {
        let query = "X-Amz-Signature=00&x%2damz-Security-Token=1&AWSAccessKeyId=k&Signature=s&x-amz-server-side-encryption-customer-key=a&versionId=1";
        let wanted = "X-Amz-Signature=…&x%2damz-Security-Token=…&AWSAccessKeyId=…&Signature=…&x-amz-server-side-encryption-customer-key=…&versionId=1";
        assert_eq!(redacted(query), wanted);
        assert_eq!(redacted("list-type=2&continuation-token="), "list-type=2&continuation-token=");
    }

    #[test]
    fn tags_have_limits() {
        assert_eq!(tags_of_header("a=1&b=").unwrap().len(), 2);
        assert!(tags_of_header("a=1&a=2").is_err());
        assert!(tags_of_header(&"x".repeat(129)).is_err());
        assert!(tags_of_header("=1").is_err());
        assert!(tags_of_header("a%2B-=._:%2F@%20\u{e9}=1").is_ok());
        for bad in ["a!=1", "a=1%23", "a=*"] {
            assert!(tags_of_header(bad).is_err(), "{bad}");
        }
    }
}
