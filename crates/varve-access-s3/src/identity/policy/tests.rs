//! Tests of policies.

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
    policy.ask(&PolicyQuestion { user: user.as_ref(), action, resource, value: &value })
}

const MIXED: &str = r#"{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"AWS": ["arn:aws:iam:::user/ann", "bob"]}, "Action": "s3:Get*", "Resource": "arn:aws:s3:::b/*"},
    {"Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "arn:aws:s3:::b/secret/*"},
    {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::b",
     "Condition": {"IpAddress": {"aws:SourceIp": "10.1.0.0/16"}, "StringLikeIfExists": {"s3:prefix": "pub*"}}}]}"#;

#[test]
fn variables_are_of_the_one_who_asks() {
    let of = |version: &str, effect: &str, kind: &str| {
        format!(
            r#"{{"Version": "{version}", "Statement": [{{"Effect": "{effect}", "Principal": "*", "Action": "*",
                "{kind}": "arn:aws:s3:::b/home/${{aws:username}}/*"}}]}}"#
        )
    };
    let ask_of = |policy: &str, user: Option<&str>, resource: &str| {
        let values: Vec<_> = user.iter().map(|user| ("aws:username", *user)).collect();
        ask(policy, user, "s3:GetObject", resource, &values)
    };
    let (new, ann, bob) = ("2012-10-17", "b/home/ann/x", "b/home/bob/x");
    let allow = of(new, "Allow", "Resource");
    assert_eq!(ask_of(&allow, Some("ann"), ann), Verdict::Allow);
    assert_eq!(ask_of(&allow, Some("ann"), bob), Verdict::Silent);
    assert_eq!(ask_of(&allow, Some("*"), bob), Verdict::Silent, "a name is no pattern");
    assert_eq!(ask_of(&allow, None, "b/home//x"), Verdict::Silent);
    let old = of("2008-10-17", "Allow", "Resource");
    assert_eq!(ask_of(&old, Some("ann"), ann), Verdict::Silent);
    assert_eq!(ask_of(&old, None, "b/home/${aws:username}/x"), Verdict::Allow);
    assert_eq!(ask_of(&of(new, "Deny", "Resource"), Some("ann"), ann), Verdict::Deny);
    for (effect, user, resource, wanted) in [
        ("Deny", Some("ann"), ann, Verdict::Silent),
        ("Deny", Some("ann"), bob, Verdict::Deny),
        ("Deny", None, ann, Verdict::Deny),
        ("Allow", None, ann, Verdict::Silent),
    ] {
        let policy = of(new, effect, "NotResource");
        assert_eq!(ask_of(&policy, user, resource), wanted, "{effect} {user:?}");
    }
    let unknown = allow.replace("aws:username", "aws:nothing");
    let policy = Policy::parse_for_bucket(unknown.as_bytes(), "b").unwrap();
    assert_eq!(policy.check(|_| true).unwrap_err(), "Policy has an invalid variable");
}

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
fn a_user_may_be_named_without_a_kind() {
    let policy = |principal: &str| {
        format!(
            r#"{{"Statement": {{"Effect": "Allow", "Principal": {principal}, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}}}}"#
        )
    };
    for principal in [r#""ann""#, r#"["bob", "ann"]"#, r#"{"AWS": "ann"}"#] {
        let verdict = ask(&policy(principal), Some("ann"), "s3:GetObject", "b/x", &[]);
        assert_eq!(verdict, Verdict::Allow, "{principal}");
        let other = ask(&policy(principal), Some("eve"), "s3:GetObject", "b/x", &[]);
        assert_eq!(other, Verdict::Silent, "{principal}");
    }
    for principal in [r#""""#, "[]", r#"["*", "ann"]"#, r#"{"AWS": []}"#, r#"{"AWS": ""}"#] {
        let parsed = Policy::parse_for_bucket(policy(principal).as_bytes(), "b");
        assert!(parsed.is_err(), "{principal}");
    }
}

#[test]
fn new_policies_are_checked_closer() {
    let check = |rest: &str, version: &str| {
        let text = format!(r#"{{{version}"Statement": {{"Effect": "Allow", {rest}}}}}"#);
        let policy = Policy::parse_for_bucket(text.as_bytes(), "b").unwrap();
        policy.check(|id| id == "ann").err().unwrap_or_default()
    };
    let with = |principal: &str, action: &str, resource: &str| {
        check(
            &format!(
                r#""Principal": "{principal}", "Action": "{action}", "Resource": "arn:aws:s3:::{resource}""#
            ),
            "",
        )
    };
    assert_eq!(with("ann", "s3:Get*", "b/*"), "");
    assert_eq!(with("*", "s3:*", "b"), "");
    assert_eq!(with("*", "*", "b"), "");
    assert_eq!(with("*", "s3:ListBucket", "b*"), "");
    assert_eq!(with("eve", "s3:Get*", "b/*"), INVALID_PRINCIPAL);
    assert_eq!(with("*", "s3:GetObjekt", "b/*"), INVALID_ACTION);
    assert_eq!(with("*", "s3:*:", "b/*"), INVALID_ACTION);
    let version = |version: &str| {
        check(r#""Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b""#, version)
    };
    assert_eq!(version(r#""Version": "2012-10-17", "#), "");
    assert!(version(r#""Version": "2012-10-18", "#).contains("valid version"));
    let when = |condition: &str| {
        let rest = format!(
            r#""Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::b", "Condition": {condition}"#
        );
        check(&rest, "")
    };
    assert_eq!(when(r#"{"IpAddress": {"aws:SourceIp": ["10.0.0.0/8", "::1"]}}"#), "");
    assert!(when(r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/40"}}"#).contains("Invalid IP"));
    assert!(when(r#"{"StringEquals": {"s3:Odd": "1"}}"#).contains("invalid condition key"));
    assert_eq!(when(r#"{"StringEquals": {"s3:ExistingObjectTag/odd": "1"}}"#), "");
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
    let holds = |name: &str, wanted: &str, found: &str| {
        let pattern: Vec<_> = pattern::compile(wanted).collect();
        Operator::parse(name).unwrap().0.matches(&pattern, found)
    };
    assert!(holds("NumericLessThan", "10", "9"));
    assert!(!holds("NumericLessThan", "10", "x"));
    assert!(holds("DateGreaterThan", "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z"));
    assert!(holds("IpAddress", "::1/128", "::1"));
    assert!(!holds("IpAddress", "10.0.0.0/33", "10.0.0.0"));
    assert!(holds("IpAddress", "0.0.0.0/0", "1.2.3.4"));
}

#[test]
fn new_policies_have_no_members_that_would_be_skipped() {
    let good = r#"{"Version": "2012-10-17", "Id": "i", "Statement": [{"Sid": "s", "Effect": "Allow", "Principal": "*",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}]}"#;
    let refusal = |text: &str| {
        // What is stored already is still read.
        let policy = Policy::parse_for_bucket(text.as_bytes(), "b").unwrap();
        policy.check(|_| true).err().unwrap_or_default()
    };
    assert_eq!(refusal(good), "");
    assert_eq!(refusal(&good.replace("\"Condition", "\"Conditions")), "Unknown field Conditions");
    assert_eq!(refusal(&good.replace("\"Id", "\"ID")), "Unknown field ID");
    let twice = good.replace("\"Effect", "\"Effect\": \"Deny\", \"Effect");
    assert_eq!(refusal(&twice), "This policy contains a field twice");
    let twice = good.replace("\"Condition", "\"Condition\": {}, \"Condition");
    assert_eq!(refusal(&twice), "This policy contains a field twice");
}
