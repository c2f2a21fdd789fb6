//! Policies of buckets and users: a document in JSON, and what it says to a request.

mod pattern;
mod vocabulary;

use std::net::IpAddr;

use serde_json::Value;
use varve_object::User;

use self::pattern::PatternPiece;
pub(crate) use self::pattern::matches;
use self::vocabulary::{applies, is_action, is_condition_key};
use crate::json;

/// Longest document, in bytes.
pub(crate) const POLICY_BYTES_MAX: usize = 20 << 10;

const ARN: &str = "arn:aws:s3:::";
/// Versions of the language.
const VERSIONS: [&str; 2] = ["2008-10-17", WITH_VARIABLES];
/// The one in which patterns have variables.
const WITH_VARIABLES: &str = "2012-10-17";
/// Begin of keys for the tags that an object has.
const OBJECT_TAG: &str = "s3:existingobjecttag/";
const INVALID_ACTION: &str = "Policy has invalid action";
const INVALID_PRINCIPAL: &str = "Invalid principal in policy";
const INVALID_RESOURCE: &str = "Policy has invalid resource";

/// Members of a document, and of its statements.
const MEMBERS: [&str; 3] = ["Id", "Statement", "Version"];
const MEMBERS_OF_STATEMENT: [&str; 9] = [
    "Action",
    "Condition",
    "Effect",
    "NotAction",
    "NotPrincipal",
    "NotResource",
    "Principal",
    "Resource",
    "Sid",
];

/// A policy.
#[derive(Debug, Clone)]
pub(crate) struct Policy {
    version: Option<String>,
    statements: Vec<Statement>,
    /// Why it may not mean what its author wrote.
    doubt: Option<String>,
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
pub(crate) struct PolicyQuestion<'a> {
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
                return Err(INVALID_RESOURCE.to_owned());
            }
        }
        Ok(policy)
    }

    /// Refuses a new policy of a bucket that cannot mean what its author thinks: unknown versions, actions, keys of
    /// conditions and addresses, and users that `is_user` does not know. What is stored already passes without.
    pub(crate) fn check(&self, is_user: impl Fn(&str) -> bool) -> Result<(), String> {
        self.check_members()?;
        if self.version.as_deref().is_some_and(|version| !VERSIONS.contains(&version)) {
            return Err("The policy must contain a valid version string".to_owned());
        }
        for statement in &self.statements {
            statement.check(&is_user, self.has_variables())?;
        }
        Ok(())
    }

    /// Refuses a new policy with members that are not known: a condition whose name is misspelled would restrict
    /// nothing. What is stored already passes without.
    pub(crate) fn check_members(&self) -> Result<(), String> {
        self.doubt.clone().map_or(Ok(()), Err)
    }

    /// Reads a user's policy.
    pub(crate) fn parse_for_user(text: &[u8]) -> Result<Self, String> {
        Self::parse(text, false)
    }

    fn parse(text: &[u8], with_principals: bool) -> Result<Self, String> {
        if text.len() > POLICY_BYTES_MAX {
            return Err(format!("longer than {POLICY_BYTES_MAX} bytes"));
        }
        if text.first() != Some(&b'{') {
            let wanted = "Policies must be valid JSON and the first byte must be '{'";
            return Err(wanted.to_owned());
        }
        let document: Value = serde_json::from_slice(text)
            .map_err(|_| "This policy contains invalid Json".to_owned())?;
        let statements = match document.get("Statement") {
            Some(Value::Array(all)) => all.iter().collect(),
            Some(one @ Value::Object(_)) => vec![one],
            _ => return Err("Missing required field Statement".to_owned()),
        };
        if statements.is_empty() {
            return Err("Could not parse the policy: Statement is empty!".to_owned());
        }
        let unknown = unknown_member(&document, &MEMBERS).or_else(|| {
            let mut all = statements.iter();
            all.find_map(|statement| unknown_member(statement, &MEMBERS_OF_STATEMENT))
        });
        let doubt = match unknown {
            Some(name) => Some(format!("Unknown field {name}")),
            None if json::is_unambiguous(text) => None,
            None => Some("This policy contains a field twice".to_owned()),
        };
        let statements =
            statements.into_iter().map(|statement| Statement::parse(statement, with_principals));
        let version = document.get("Version");
        let version = version.map(|version| version.as_str().unwrap_or_default().to_owned());
        Ok(Self { version, statements: statements.collect::<Result<_, _>>()?, doubt })
    }

    /// What it says to a request: a denial outweighs whatever allows.
    pub(crate) fn ask(&self, question: &PolicyQuestion<'_>) -> Verdict {
        let mut verdict = Verdict::Silent;
        let variables = self.has_variables();
        let applies = |statement: &&Statement| statement.applies(question, variables);
        for statement in self.statements.iter().filter(applies) {
            if statement.deny {
                return Verdict::Deny;
            }
            verdict = Verdict::Allow;
        }
        verdict
    }

    fn has_variables(&self) -> bool {
        self.version.as_deref() == Some(WITH_VARIABLES)
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

    /// Whether a condition, or a variable, looks at tags that an object has.
    pub(crate) fn asks_for_tags(&self) -> bool {
        self.statements
            .iter()
            .flat_map(|statement| &statement.conditions)
            .any(|condition| condition.key.starts_with(OBJECT_TAG))
            || self.has_variables() && self.statements.iter().any(Statement::has_tags_in_variables)
    }
}

/// The first member of an object that is none of those that may be there.
fn unknown_member<'a>(object: &'a Value, known: &[&str]) -> Option<&'a str> {
    let mut names = object.as_object()?.keys().map(String::as_str);
    names.find(|name| !known.contains(name))
}

impl Statement {
    fn parse(value: &Value, with_principals: bool) -> Result<Self, String> {
        let deny = match value.get("Effect").and_then(Value::as_str) {
            Some("Allow") => false,
            Some("Deny") => true,
            Some(other) => return Err(format!("Invalid effect: {other}")),
            None => return Err("Missing required field Effect".to_owned()),
        };
        let principals = match (value.get("Principal"), value.get("NotPrincipal")) {
            (None, None) if !with_principals => Principals::Holder,
            (Some(named), None) if with_principals => principals(named, false)?,
            (None, Some(named)) if with_principals && deny => principals(named, true)?,
            _ => return Err("principal missing, or where none belongs".to_owned()),
        };
        let mut actions = Patterns::parse(value, "Action", "NotAction")
            .map_err(|error| error.unwrap_or_else(|| INVALID_ACTION.to_owned()))?;
        for action in &mut actions.any {
            if action != "*" && !action.to_ascii_lowercase().starts_with("s3:") {
                return Err(INVALID_ACTION.to_owned());
            }
            action.make_ascii_lowercase();
        }
        let mut resources = Patterns::parse(value, "Resource", "NotResource")
            .map_err(|error| error.unwrap_or_else(|| INVALID_RESOURCE.to_owned()))?;
        for resource in &mut resources.any {
            if resource == "*" {
                continue;
            }
            *resource = resource.strip_prefix(ARN).ok_or(INVALID_RESOURCE)?.to_owned();
        }
        let conditions = match value.get("Condition") {
            None => Vec::new(),
            Some(Value::Object(operators)) => parse_conditions(operators)?,
            Some(_) => return Err("condition is not an object".to_owned()),
        };
        Ok(Self { deny, principals, actions, resources, conditions })
    }

    /// All patterns that may have variables.
    fn patterns(&self) -> impl Iterator<Item = &String> {
        let values = self.conditions.iter().flat_map(|condition| &condition.values);
        self.resources.any.iter().chain(values)
    }

    fn has_tags_in_variables(&self) -> bool {
        let mut variables = self.patterns().flat_map(|pattern| pattern::variables(pattern));
        variables.any(|name| lower_key(name).starts_with(OBJECT_TAG))
    }

    fn check(&self, is_user: impl Fn(&str) -> bool, variables: bool) -> Result<(), String> {
        let mut named = self.patterns().flat_map(|pattern| pattern::variables(pattern));
        if variables && named.any(|name| !is_condition_key(&lower_key(name))) {
            return Err("Policy has an invalid variable".to_owned());
        }
        if let Principals::Users(ids) | Principals::NotUsers(ids) = &self.principals
            && ids.iter().any(|id| id != "*" && !is_user(id))
        {
            return Err(INVALID_PRINCIPAL.to_owned());
        }
        for action in self.actions.any.iter().filter(|action| *action != "*") {
            if !is_action(action) {
                return Err(INVALID_ACTION.to_owned());
            }
        }
        for condition in &self.conditions {
            if condition.operator == Operator::Null && condition.if_exists {
                return Err("Invalid Condition type : NullIfExists".to_owned());
            }
            if !is_condition_key(&condition.key) {
                return Err("Policy has an invalid condition key".to_owned());
            }
            if !self.actions.negated
                && !self.actions.any.iter().all(|action| applies(&condition.key, action))
            {
                let text =
                    "Conditions do not apply to combination of actions and resources in statement";
                return Err(text.to_owned());
            }
            if condition.key == "aws:sourceip"
                && !condition.values.iter().all(|net| is_network(net))
            {
                return Err("Invalid IP address in Conditions".to_owned());
            }
        }
        Ok(())
    }

    fn applies(&self, question: &PolicyQuestion<'_>, variables: bool) -> bool {
        let action = question.action.to_ascii_lowercase();
        self.principals.include(question.user)
            && self.actions.any.iter().any(|pattern| matches(pattern, &action))
                != self.actions.negated
            && self.includes(question, variables)
            && self
                .conditions
                .iter()
                .all(|condition| condition.holds(question, variables, self.deny))
    }

    /// Whether the resource is meant. Where a variable has no value, a statement allows nothing, and denies all but
    /// what it excepts.
    fn includes(&self, question: &PolicyQuestion<'_>, variables: bool) -> bool {
        let fits = |pattern: &String| {
            let pattern = question.expand(pattern, variables);
            pattern.map(|pattern| pattern::fits(&pattern, question.resource))
        };
        let Patterns { negated, any } = &self.resources;
        let included = any.iter().any(|pattern| fits(pattern).unwrap_or(*negated && !self.deny));
        included != *negated
    }
}

/// Everybody, or users by a kind of name; a user's id may also stand alone.
fn principals(value: &Value, negated: bool) -> Result<Principals, String> {
    let invalid = || INVALID_PRINCIPAL.to_owned();
    let ids = match value {
        Value::String(_) | Value::Array(_) => {
            let ids = texts(value).map_err(|_| invalid())?;
            if ids.len() > 1 && ids.iter().any(|id| id == "*") {
                return Err(invalid());
            }
            ids
        }
        Value::Object(kinds) => {
            let known =
                kinds.iter().filter(|(kind, _)| ["AWS", "CanonicalUser"].contains(&kind.as_str()));
            let lists = known
                .map(|(_, ids)| texts(ids).map_err(|_| invalid()))
                .collect::<Result<Vec<_>, _>>()?;
            if kinds.is_empty()
                || kinds.keys().any(|kind| {
                    !["AWS", "CanonicalUser", "Service", "Federated"].contains(&kind.as_str())
                })
            {
                return Err(invalid());
            }
            lists.into_iter().flatten().collect()
        }
        _ => return Err(invalid()),
    };
    if ids.iter().any(String::is_empty) {
        return Err(invalid());
    }
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
    /// What is wrong; nothing in particular where it is the value.
    fn parse(value: &Value, name: &str, negated: &str) -> Result<Self, Option<String>> {
        let any = |any| texts(any).map_err(|_| None);
        match (value.get(name), value.get(negated)) {
            (Some(found), None) => Ok(Self { negated: false, any: any(found)? }),
            (None, Some(found)) => Ok(Self { negated: true, any: any(found)? }),
            _ => Err(Some(format!("one of {name} and {negated} must be there"))),
        }
    }
}

impl PolicyQuestion<'_> {
    /// A pattern with its variables replaced, if it has such; none where one has no value.
    fn expand(&self, pattern: &str, variables: bool) -> Option<Vec<PatternPiece>> {
        if variables {
            pattern::expand(pattern, &|name| (self.value)(&lower_key(name)))
        } else {
            Some(pattern::compile(pattern).collect())
        }
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
            Operator::parse(plain).ok_or_else(|| format!("Invalid Condition type : {name}"))?;
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

    fn matches(self, pattern: &[PatternPiece], found: &str) -> bool {
        let wanted = &*pattern::text(pattern);
        match self {
            Self::Equals => wanted == found,
            Self::EqualsIgnoreCase | Self::Bool => wanted.eq_ignore_ascii_case(found),
            Self::Like => pattern::fits(pattern, found),
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
    /// Where a variable has no value, an allowance does not hold.
    fn holds(&self, question: &PolicyQuestion<'_>, variables: bool, deny: bool) -> bool {
        let found = (question.value)(&self.key);
        if self.operator == Operator::Null {
            return self.values.iter().any(|value| (value == "true") == found.is_none());
        }
        match found {
            None => self.if_exists || self.negated,
            Some(found) => {
                let fits = |wanted: &String| {
                    let wanted = question.expand(wanted, variables);
                    wanted.map_or(self.negated && !deny, |wanted| {
                        self.operator.matches(&wanted, &found)
                    })
                };
                self.values.iter().any(fits) != self.negated
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

/// Whether it is an address, or a network of addresses.
fn is_network(text: &str) -> bool {
    let base = text.split_once('/').map_or(text, |(base, _)| base);
    within(text, base)
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

/// Whether a text fits a variable with this value, for fuzzing; none where the value cannot be one.
pub(crate) fn fits_variable(value: &str, text: &str) -> Option<bool> {
    let pattern = pattern::expand("${name}", &|_| Some(value.to_owned()))?;
    Some(pattern::fits(&pattern, text))
}

#[cfg(test)]
mod tests;
