//! The policy of a form: until when it may be used, and what its fields must be.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use s3s::{S3Error, S3Result, s3_error};
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Fields;
use crate::identity::policy::POLICY_BYTES_MAX;
use crate::json;

/// A policy, checked for sense.
#[derive(Debug)]
pub(crate) struct FormPolicy {
    expires: OffsetDateTime,
    conditions: Vec<Condition>,
    /// Least and greatest length of the file, in bytes.
    pub(crate) length: Option<(u64, u64)>,
}

#[derive(Debug)]
struct Condition {
    field: String,
    value: String,
    begins: bool,
}

fn invalid(what: &str) -> S3Error {
    s3_error!(InvalidPolicyDocument, "Invalid Policy: {what}")
}

impl FormPolicy {
    /// Reads a policy in base64.
    pub(crate) fn parse(text: &str) -> S3Result<Self> {
        if text.len() > 2 * POLICY_BYTES_MAX {
            return Err(invalid("it is too long"));
        }
        let bytes =
            BASE64_STANDARD.decode(text).map_err(|_| invalid("invalid Base64 encoding."))?;
        if bytes.is_empty() {
            return Err(invalid("Expecting '{' but found End-of-Input"));
        }
        let document: Value =
            serde_json::from_slice(&bytes).map_err(|_| invalid("Invalid JSON."))?;
        if !json::is_unambiguous(&bytes) {
            return Err(invalid("Invalid JSON."));
        }
        let members = document.as_object().ok_or_else(|| invalid("Invalid JSON."))?;
        if let Some(name) =
            members.keys().find(|name| *name != "expiration" && *name != "conditions")
        {
            return Err(invalid(&format!("Unexpected: {name:?}")));
        }
        let text =
            members.get("expiration").ok_or_else(|| invalid("Policy missing expiration."))?;
        let written = text.as_str().ok_or_else(|| invalid("Invalid JSON."))?;
        // The parser takes any character between date and time.
        let expires = Some(written).filter(|text| text.as_bytes().get(10) == Some(&b'T'));
        let expires = expires.and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
        let expires =
            expires.ok_or_else(|| invalid(&format!("Invalid 'expiration' value: '{written}'")))?;
        let list =
            members.get("conditions").ok_or_else(|| invalid("Policy missing conditions."))?;
        let list = list
            .as_array()
            .ok_or_else(|| invalid("Invalid 'conditions' value: must be a List."))?;
        let mut policy = Self { expires, conditions: Vec::new(), length: None };
        for condition in list {
            policy.add(condition)?;
        }
        if policy.conditions.is_empty() {
            return Err(invalid("Policy missing conditions."));
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Value) -> S3Result<()> {
        match condition {
            Value::Object(pairs) => {
                if pairs.len() != 1 {
                    return Err(invalid(
                        "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
                    ));
                }
                for (field, value) in pairs {
                    let text = "Invalid Simple-Condition: value must be a string.";
                    let value = value.as_str().ok_or_else(|| invalid(text))?.to_owned();
                    let field = field.to_ascii_lowercase();
                    self.conditions.push(Condition { field, value, begins: false });
                }
                Ok(())
            }
            Value::Array(parts) => {
                let missing = || invalid("Invalid Condition: missing operation identifier.");
                let named = parts.first().and_then(Value::as_str).ok_or_else(missing)?;
                let operator = named.to_ascii_lowercase();
                if !["eq", "starts-with", "content-length-range"].contains(&operator.as_str()) {
                    return Err(invalid(&format!(
                        "Invalid Condition: unknown operation '{named}'."
                    )));
                }
                let [_, first, second] = parts.as_slice() else {
                    return Err(invalid(&format!("Invalid {named}: wrong number of arguments.")));
                };
                if operator == "content-length-range" {
                    // All conditions hold, so of several ranges what is common to them.
                    let (least, most) = self.length.unwrap_or((0, u64::MAX));
                    self.length = Some((least.max(number(first)?), most.min(number(second)?)));
                    return Ok(());
                }
                let begins = operator == "starts-with";
                let (Some(field), Some(value)) = (first.as_str(), second.as_str()) else {
                    return Err(invalid("Invalid JSON."));
                };
                // It names no field, so it cannot hold.
                let field = field.strip_prefix('$').ok_or_else(|| failed(condition))?;
                let value = value.to_owned();
                self.conditions.push(Condition {
                    field: field.to_ascii_lowercase(),
                    value,
                    begins,
                });
                Ok(())
            }
            _ => Err(invalid("Invalid condition test: must be a List or Object.")),
        }
    }

    /// Whether the fields are as it says, and it says something of each.
    pub(crate) fn check(&self, bucket: &str, fields: &Fields) -> S3Result<()> {
        if OffsetDateTime::now_utc() >= self.expires {
            return Err(s3_error!(AccessDenied, "Invalid according to Policy: Policy expired."));
        }
        let extra = |field: &str| {
            s3_error!(AccessDenied, "Invalid according to Policy: Extra input fields: {field}")
        };
        for condition in &self.conditions {
            let found = if condition.field == "bucket" {
                Some(bucket)
            } else {
                fields.get(&condition.field)
            };
            let found = found.unwrap_or_default();
            let holds = if condition.begins {
                begins(&condition.field, found, &condition.value)
            } else {
                found == condition.value
            };
            if !holds {
                let operator = if condition.begins { "starts-with" } else { "eq" };
                let field = format!("${}", condition.field);
                return Err(failed(&serde_json::json!([operator, field, condition.value])));
            }
        }
        let free = ["policy", "file", "signature", "awsaccesskeyid", "x-amz-signature", "bucket"];
        let named = |field: &str| self.conditions.iter().any(|condition| condition.field == field);
        if !named("bucket") {
            return Err(extra("bucket"));
        }
        for (field, _) in &fields.all {
            let only_checks =
                field.starts_with("x-ignore-") || field.starts_with("x-amz-checksum-");
            if !free.contains(&field.as_str()) && !only_checks && !named(field) {
                return Err(extra(field));
            }
        }
        Ok(())
    }
}

/// Types may be a list, each of which must begin so.
fn begins(field: &str, found: &str, value: &str) -> bool {
    if field == "content-type" {
        found.split(',').all(|one| one.trim().starts_with(value))
    } else {
        found.starts_with(value)
    }
}

/// The condition as clients know it, with spaces behind its commas.
fn failed(condition: &Value) -> S3Error {
    let text = condition.to_string().replace("\",\"", "\", \"");
    s3_error!(AccessDenied, "Invalid according to Policy: Policy Condition failed: {text}")
}

fn number(value: &Value) -> S3Result<u64> {
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    number.ok_or_else(|| invalid("Invalid JSON."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(text: &str) -> S3Result<FormPolicy> {
        FormPolicy::parse(&BASE64_STANDARD.encode(text))
    }

    fn fields(all: &[(&str, &str)]) -> Fields {
        Fields {
            all: all
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn every_field_needs_a_condition_that_holds() {
        let text = r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": [{"bucket": "b"}, ["starts-with", "$key", "user/"],
                       {"acl": "private"}, ["content-length-range", 1, "10"]]}"#;
        let policy = policy(text).unwrap();
        assert_eq!(policy.length, Some((1, 10)));
        let good = [("key", "user/x"), ("acl", "private"), ("x-ignore-me", "1")];
        policy.check("b", &fields(&good)).unwrap();
        let ranges = text.replace(
            r#""content-length-range", 1, "10"]"#,
            r#""content-length-range", 1, 10], ["content-length-range", 0, 99]"#,
        );
        assert_eq!(
            FormPolicy::parse(&BASE64_STANDARD.encode(ranges)).unwrap().length,
            Some((1, 10))
        );
        assert!(policy.check("other", &fields(&good)).is_err());
        assert!(policy.check("b", &fields(&[("key", "x"), ("acl", "private")])).is_err());
        assert!(
            policy.check("b", &fields(&[("key", "user/x")])).is_err(),
            "a condition without its field"
        );
        assert!(
            policy
                .check("b", &fields(&[("key", "user/x"), ("acl", "private"), ("extra", "")]))
                .is_err()
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"expiration": "soon", "conditions": [{"bucket": "b"}]}"#,
            r#"{"expiration": "2999-01-01 00:00:00+00:00", "conditions": [{"bucket": "b"}]}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": []}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z"}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": [{"bucket": "a", "bucket": "b"}]}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": [["content-length-range", -1, 0]]}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": [["like", "$key", "x"]]}"#,
            r#"{"expiration": "2999-01-01T00:00:00Z", "conditions": [["eq", "key", "x"]]}"#,
        ] {
            assert!(policy(text).is_err(), "{text}");
        }
        let old =
            policy(r#"{"expiration": "1999-01-01T00:00:00Z", "conditions": [{"bucket": "b"}]}"#)
                .unwrap();
        assert!(old.check("b", &fields(&[])).is_err());
    }
}
