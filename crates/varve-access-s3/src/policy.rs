//! Policies of buckets and users: a document in JSON, and what it says to a request.

use std::net::IpAddr;

use serde_json::Value;
use varve_object::User;

/// Longest document, in bytes.
pub(crate) const POLICY_BYTES_MAX: usize = 20 << 10;

const ARN: &str = "arn:aws:s3:::";

/// A policy.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    statements: Vec<Statement>,
}

#[derive(Debug, Clone)]
struct Statement {
    deny: bool,
    principals: Principals,
    actions: Patterns,
    resources: Patterns,
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone)]
enum Principals {
    /// A user's own policy names nobody.
    Holder,
    Everyone,
    Users(Vec<String>),
    NotUsers(Vec<String>),
}

/// Patterns with `*` and `?`.
#[derive(Debug, Clone)]
struct Patterns {
    negated: bool,
    any: Vec<String>,
}

#[derive(Debug, Clone)]
struct Condition {
    operator: Operator,
    negated: bool,
    if_exists: bool,
    key: String,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals,
    EqualsIgnoreCase,
    Like,
    Numeric(Order),
    Date(Order),
    Bool,
    Ip,
    Null,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Equal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// What a policy is asked.
pub(crate) struct Question<'a> {
    /// Who asks; none: not signed in.
    pub(crate) user: Option<&'a User>,
    /// As in `s3:GetObject`.
    pub(crate) action: &'a str,
    /// The bucket, or bucket and key with a slash between.
    pub(crate) resource: &'a str,
    /// Values of condition keys, by lower-case name.
    pub(crate) value: &'a (dyn Fn(&str) -> Option<String> + Sync),
}

/// What it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allow,
    Deny,
    Silent,
}

impl Policy {
    /// Reads a bucket's policy. Its resources must lie in the bucket.
    pub(crate) fn parse_for_bucket(text: &[u8], bucket: &str) -> Result<Self, String> {
        let policy = Self::parse(text, true)?;
        for pattern in policy.statements.iter().flat_map(|statement| &statement.resources.any) {
            let named = pattern.split('/').next().unwrap_or_default();
            if !matches(named, bucket) {
                return Err(format!("resource `{pattern}` is not in the bucket"));
            }
        }
        Ok(policy)
    }

    /// Reads a user's policy.
    pub(crate) fn parse_for_user(text: &[u8]) -> Result<Self, String> {
        Self::parse(text, false)
    }

    fn parse(text: &[u8], with_principals: bool) -> Result<Self, String> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(format!("longer than {POLICY_BYTES_MAX} bytes"));
        }
        let document: Value =
            serde_json::from_slice(text).map_err(|error| format!("no JSON: {error}"))?;
        let statements = match document.get("Statement") {
            Some(Value::Array(all)) => all.iter().collect(),
            Some(one @ Value::Object(_)) => vec![one],
            _ => return Err("no statement".to_owned()),
        };
        if statements.is_empty() {
            return Err("no statement".to_owned());
        }
        let statements =
            statements.into_iter().map(|statement| Statement::parse(statement, with_principals));
        Ok(Self { statements: statements.collect::<Result<_, _>>()? })
    }

    /// What it says to a request: a denial outweighs whatever allows.
    pub(crate) fn ask(&self, question: &Question<'_>) -> Verdict {
        let mut verdict = Verdict::Silent;
        for statement in self.statements.iter().filter(|statement| statement.applies(question)) {
            if statement.deny {
                return Verdict::Deny;
            }
            verdict = Verdict::Allow;
        }
        verdict
    }

    /// Whether it allows something to everybody, wherever they come from.
    pub(crate) fn is_public(&self) -> bool {
        let narrow = |condition: &Condition| {
            let keys = [
                "aws:sourceip",
                "aws:sourcearn",
                "aws:sourceaccount",
                "aws:userid",
                "aws:username",
                "aws:sourcevpc",
                "aws:sourcevpce",
            ];
            let everywhere = condition
                .values
                .iter()
                .any(|value| value == "0.0.0.0/0" || value == "::/0" || value == "*");
            keys.contains(&condition.key.as_str()) && !condition.negated && !everywhere
        };
        self.statements.iter().any(|statement| {
            !statement.deny
                && matches!(statement.principals, Principals::Everyone)
                && !statement.conditions.iter().any(narrow)
        })
    }

    /// Whether a condition looks at tags that an object has.
    pub(crate) fn asks_for_tags(&self) -> bool {
        self.statements
            .iter()
            .flat_map(|statement| &statement.conditions)
            .any(|condition| condition.key.starts_with("s3:existingobjecttag/"))
    }
}

impl Statement {
    fn parse(value: &Value, with_principals: bool) -> Result<Self, String> {
        let deny = match value.get("Effect").and_then(Value::as_str) {
            Some("Allow") => false,
            Some("Deny") => true,
            _ => return Err("effect is neither Allow nor Deny".to_owned()),
        };
        let principals = match (value.get("Principal"), value.get("NotPrincipal")) {
            (None, None) if !with_principals => Principals::Holder,
            (Some(named), None) if with_principals => principals(named, false)?,
            (None, Some(named)) if with_principals && deny => principals(named, true)?,
            _ => return Err("principal missing, or where none belongs".to_owned()),
        };
        let mut actions = Patterns::parse(value, "Action", "NotAction")?;
        for action in &mut actions.any {
            if action != "*" && !action.to_ascii_lowercase().starts_with("s3:") {
                return Err(format!("unknown action `{action}`"));
            }
            action.make_ascii_lowercase();
        }
        let mut resources = Patterns::parse(value, "Resource", "NotResource")?;
        for resource in &mut resources.any {
            if resource == "*" {
                continue;
            }
            *resource = resource
                .strip_prefix(ARN)
                .ok_or_else(|| format!("`{resource}` is no resource of S3"))?
                .to_owned();
        }
        let conditions = match value.get("Condition") {
            None => Vec::new(),
            Some(Value::Object(operators)) => parse_conditions(operators)?,
            Some(_) => return Err("condition is no object".to_owned()),
        };
        Ok(Self { deny, principals, actions, resources, conditions })
    }

    fn applies(&self, question: &Question<'_>) -> bool {
        self.principals.include(question.user)
            && self.actions.include(&question.action.to_ascii_lowercase())
            && self.resources.include(question.resource)
            && self.conditions.iter().all(|condition| condition.holds(question))
    }
}

fn principals(value: &Value, negated: bool) -> Result<Principals, String> {
    let ids = match value {
        Value::String(all) if all == "*" => vec!["*".to_owned()],
        Value::Object(kinds) => {
            let known =
                kinds.iter().filter(|(kind, _)| ["AWS", "CanonicalUser"].contains(&kind.as_str()));
            let lists = known.map(|(_, ids)| texts(ids)).collect::<Result<Vec<_>, _>>()?;
            if kinds.is_empty()
                || kinds.keys().any(|kind| {
                    !["AWS", "CanonicalUser", "Service", "Federated"].contains(&kind.as_str())
                })
            {
                return Err("unknown kind of principal".to_owned());
            }
            lists.into_iter().flatten().collect()
        }
        _ => return Err("principal is neither `*` nor an object".to_owned()),
    };
    if !negated && ids.iter().any(|id| id == "*") {
        return Ok(Principals::Everyone);
    }
    let ids = ids
        .into_iter()
        .map(|id| id.rsplit_once("user/").map_or(id.clone(), |(_, name)| name.to_owned()))
        .collect();
    Ok(if negated { Principals::NotUsers(ids) } else { Principals::Users(ids) })
}

impl Principals {
    fn include(&self, user: Option<&User>) -> bool {
        let named = |ids: &[String]| {
            user.is_some_and(|user| ids.iter().any(|id| *id == user.id || id == "*"))
        };
        match self {
            Self::Holder | Self::Everyone => true,
            Self::Users(ids) => named(ids),
            Self::NotUsers(ids) => !named(ids),
        }
    }
}

impl Patterns {
    fn parse(value: &Value, name: &str, negated: &str) -> Result<Self, String> {
        match (value.get(name), value.get(negated)) {
            (Some(any), None) => Ok(Self { negated: false, any: texts(any)? }),
            (None, Some(any)) => Ok(Self { negated: true, any: texts(any)? }),
            _ => Err(format!("one of {name} and {negated} must be there")),
        }
    }

    fn include(&self, text: &str) -> bool {
        self.any.iter().any(|pattern| matches(pattern, text)) != self.negated
    }
}

fn texts(value: &Value) -> Result<Vec<String>, String> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        _ => Err("a text or a list of texts was expected".to_owned()),
    };
    match value {
        Value::Array(all) if all.is_empty() => Err("an empty list".to_owned()),
        Value::Array(all) => all.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

fn parse_conditions(operators: &serde_json::Map<String, Value>) -> Result<Vec<Condition>, String> {
    let mut conditions = Vec::new();
    for (name, keys) in operators {
        let (plain, if_exists) =
            name.strip_suffix("IfExists").map_or((name.as_str(), false), |plain| (plain, true));
        let plain = plain
            .strip_prefix("ForAnyValue:")
            .or_else(|| plain.strip_prefix("ForAllValues:"))
            .unwrap_or(plain);
        let (operator, negated) =
            Operator::parse(plain).ok_or_else(|| format!("unknown condition `{name}`"))?;
        let keys = keys.as_object().ok_or_else(|| format!("condition `{name}` has no keys"))?;
        for (key, values) in keys {
            conditions.push(Condition {
                operator,
                negated,
                if_exists,
                key: lower_key(key),
                values: texts(values)?,
            });
        }
    }
    Ok(conditions)
}

/// Keys are compared without regard to case, names of tags within them with it.
fn lower_key(key: &str) -> String {
    match key.split_once('/') {
        Some((name, tag)) => format!("{}/{tag}", name.to_ascii_lowercase()),
        None => key.to_ascii_lowercase(),
    }
}

impl Operator {
    fn parse(name: &str) -> Option<(Self, bool)> {
        Some(match name {
            "StringEquals" | "ArnEquals" | "BinaryEquals" => (Self::Equals, false),
            "StringNotEquals" | "ArnNotEquals" => (Self::Equals, true),
            "StringEqualsIgnoreCase" => (Self::EqualsIgnoreCase, false),
            "StringNotEqualsIgnoreCase" => (Self::EqualsIgnoreCase, true),
            "StringLike" | "ArnLike" => (Self::Like, false),
            "StringNotLike" | "ArnNotLike" => (Self::Like, true),
            "NumericEquals" => (Self::Numeric(Order::Equal), false),
            "NumericNotEquals" => (Self::Numeric(Order::Equal), true),
            "NumericLessThan" => (Self::Numeric(Order::Less), false),
            "NumericLessThanEquals" => (Self::Numeric(Order::LessEqual), false),
            "NumericGreaterThan" => (Self::Numeric(Order::Greater), false),
            "NumericGreaterThanEquals" => (Self::Numeric(Order::GreaterEqual), false),
            "DateEquals" => (Self::Date(Order::Equal), false),
            "DateNotEquals" => (Self::Date(Order::Equal), true),
            "DateLessThan" => (Self::Date(Order::Less), false),
            "DateLessThanEquals" => (Self::Date(Order::LessEqual), false),
            "DateGreaterThan" => (Self::Date(Order::Greater), false),
            "DateGreaterThanEquals" => (Self::Date(Order::GreaterEqual), false),
            "Bool" => (Self::Bool, false),
            "IpAddress" => (Self::Ip, false),
            "NotIpAddress" => (Self::Ip, true),
            "Null" => (Self::Null, false),
            _ => return None,
        })
    }

    fn matches(self, wanted: &str, found: &str) -> bool {
        match self {
            Self::Equals => wanted == found,
            Self::EqualsIgnoreCase | Self::Bool => wanted.eq_ignore_ascii_case(found),
            Self::Like => matches(wanted, found),
            Self::Numeric(order) => match (found.parse::<f64>(), wanted.parse::<f64>()) {
                (Ok(found), Ok(wanted)) => {
                    found.partial_cmp(&wanted).is_some_and(|ordering| order.holds(ordering))
                }
                _ => false,
            },
            Self::Date(order) => match (seconds(found), seconds(wanted)) {
                (Some(found), Some(wanted)) => order.holds(found.cmp(&wanted)),
                _ => false,
            },
            Self::Ip => within(wanted, found),
            Self::Null => false,
        }
    }
}

impl Order {
    fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterEqual => ordering.is_ge(),
        }
    }
}

impl Condition {
    fn holds(&self, question: &Question<'_>) -> bool {
        let found = (question.value)(&self.key);
        if self.operator == Operator::Null {
            return self.values.iter().any(|value| (value == "true") == found.is_none());
        }
        match found {
            None => self.if_exists || self.negated,
            Some(found) => {
                self.values.iter().any(|wanted| self.operator.matches(wanted, &found))
                    != self.negated
            }
        }
    }
}

/// Seconds since 1970 of a time in ISO 8601, or of a number.
fn seconds(text: &str) -> Option<i64> {
    let format = time::format_description::well_known::Iso8601::DEFAULT;
    text.parse().ok().or_else(|| {
        time::OffsetDateTime::parse(text, &format).ok().map(time::OffsetDateTime::unix_timestamp)
    })
}

/// Whether an address lies in a network such as `10.0.0.0/8`, or is the address.
fn within(network: &str, address: &str) -> bool {
    let (base, bits) =
        network.split_once('/').map_or((network, None), |(base, bits)| (base, Some(bits)));
    let (Ok(base), Ok(address)) = (base.parse::<IpAddr>(), address.parse::<IpAddr>()) else {
        return false;
    };
    let (base, address, width) = match (base, address) {
        (IpAddr::V4(base), IpAddr::V4(address)) => {
            (u128::from(u32::from(base)), u128::from(u32::from(address)), 32u32)
        }
        (IpAddr::V6(base), IpAddr::V6(address)) => (u128::from(base), u128::from(address), 128),
        _ => return false,
    };
    let Ok(bits) = bits.map_or(Ok(width), str::parse::<u32>) else { return false };
    if bits > width {
        return false;
    }
    let shift = width - bits;
    base.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
}

/// Whether a text fits a pattern in which `*` stands for anything and `?` for one character. Its time is bounded by the product of both lengths.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((star_at, star_from)) => {
                    star = Some((star_at, star_from + 1));
                    at = star_at + 1;
                    from = star_from + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_none_or(|rest| rest.iter().all(|byte| *byte == b'*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        policy: &str,
        user: Option<&str>,
        action: &str,
        resource: &str,
        values: &[(&str, &str)],
    ) -> Verdict {
        let user = user.map(|id| User { id: id.to_owned(), ..User::default() });
        let value = |key: &str| {
            values.iter().find(|(name, _)| *name == key).map(|(_, value)| (*value).to_owned())
        };
        let policy = Policy::parse_for_bucket(policy.as_bytes(), "b").unwrap();
        policy.ask(&Question { user: user.as_ref(), action, resource, value: &value })
    }

    const MIXED: &str = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/ann", "bob"]}, "Action": "s3:Get*", "Resource": "arn:aws:s3:::b/*"},
        {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "arn:aws:s3:::b/secret/*"},
        {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::b",
         "Condition": {"IpAddress": {"aws:SourceIp": "10.1.0.0/16"}, "StringLikeIfExists": {"s3:prefix": "pub*"}}}]}"#;

    #[test]
    fn statements_are_weighed() {
        assert_eq!(ask(MIXED, Some("ann"), "s3:GetObject", "b/x", &[]), Verdict::Allow);
        assert_eq!(ask(MIXED, Some("bob"), "s3:getobject", "b/x", &[]), Verdict::Allow);
        assert_eq!(ask(MIXED, None, "s3:GetObject", "b/x", &[]), Verdict::Silent);
        assert_eq!(ask(MIXED, Some("ann"), "s3:GetObject", "b/secret/x", &[]), Verdict::Deny);
        let from = |ip, prefix| {
            ask(MIXED, None, "s3:ListBucket", "b", &[("aws:sourceip", ip), ("s3:prefix", prefix)])
        };
        assert_eq!(from("10.1.2.3", "public/"), Verdict::Allow);
        assert_eq!(from("10.2.2.3", "public/"), Verdict::Silent);
        assert_eq!(from("10.1.2.3", "x"), Verdict::Silent);
        assert_eq!(
            ask(MIXED, None, "s3:ListBucket", "b", &[("aws:sourceip", "10.1.0.1")]),
            Verdict::Allow
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"Statement": []}"#,
            r#"{"Statement": {"Effect": "Maybe", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b"}}"#,
            r#"{"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::b"}}"#,
            r#"{"Statement": {"Effect": "Allow", "NotPrincipal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b"}}"#,
            r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "ec2:*", "Resource": "arn:aws:s3:::b"}}"#,
            r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::other/*"}}"#,
            r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b", "Condition": {"Odd": {}}}}"#,
        ] {
            assert!(Policy::parse_for_bucket(text.as_bytes(), "b").is_err(), "{text}");
        }
    }

    #[test]
    fn patterns_fit() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*a*b", "aaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn conditions_compare() {
        let operator = |name: &str| Operator::parse(name).unwrap().0;
        assert!(operator("NumericLessThan").matches("10", "9"));
        assert!(!operator("NumericLessThan").matches("10", "x"));
        assert!(
            operator("DateGreaterThan").matches("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z")
        );
        assert!(operator("IpAddress").matches("::1/128", "::1"));
        assert!(!operator("IpAddress").matches("10.0.0.0/33", "10.0.0.0"));
        assert!(operator("IpAddress").matches("0.0.0.0/0", "1.2.3.4"));
    }
}
