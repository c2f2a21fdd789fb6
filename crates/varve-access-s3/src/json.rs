//! JSON documents of clients: no member of an object may come twice, since readers differ in which of the two they
//! take.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Whether a document is JSON in which no object has two members of one name.
pub(crate) fn is_unambiguous(text: &[u8]) -> bool {
    serde_json::from_slice::<Unambiguous>(text).is_ok()
}

/// Any value; nothing of it is kept.
struct Unambiguous;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Unambiguous, A::Error> {
        while list.next_element::<Unambiguous>()?.is_some() {}
        Ok(Unambiguous)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Unambiguous, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, _)) = members.next_entry::<String, Unambiguous>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("duplicate member"));
            }
        }
        Ok(Unambiguous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_once() {
        for good in [
            r#"{"a": [1, -1, 1.5, "x", null, true, {"b": {}}], "b": {"a": 1}}"#,
            "[{\"a\": 1}, {\"a\": 1}]",
        ] {
            assert!(is_unambiguous(good.as_bytes()), "{good}");
        }
        for bad in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#, "{", "{} {}", ""] {
            assert!(!is_unambiguous(bad.as_bytes()), "{bad}");
        }
    }
}
