//! Cross-origin requests: which rule of a bucket fits, and the headers that tell the browser.

use hyper::HeaderMap;
use hyper::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HeaderName,
    VARY,
};
use s3s::dto::{CORSConfiguration, CORSRule};

use crate::identity::policy::matches;

/// What a browser asks for.
pub(crate) struct CorsRequest<'a> {
    pub(crate) origin: &'a str,
    pub(crate) method: &'a str,
    /// Headers of a preflight request.
    pub(crate) headers: Option<&'a str>,
}

/// Headers of the rule that fits, if any does.
pub(crate) fn headers(
    configuration: &CORSConfiguration,
    asked: &CorsRequest<'_>,
) -> Option<HeaderMap> {
    let rule = configuration.cors_rules.iter().find(|rule| fits(rule, asked))?;
    let any = rule.allowed_origins.iter().any(|origin| origin == "*");
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &str| {
        if let Ok(value) = value.parse() {
            headers.insert(name, value);
        }
    };
    set(ACCESS_CONTROL_ALLOW_ORIGIN, if any { "*" } else { asked.origin });
    if !any {
        set(ACCESS_CONTROL_ALLOW_CREDENTIALS, "true");
    }
    set(ACCESS_CONTROL_ALLOW_METHODS, &rule.allowed_methods.join(", "));
    if let Some(asked) = asked.headers {
        set(ACCESS_CONTROL_ALLOW_HEADERS, &asked.to_ascii_lowercase());
    }
    if let Some(exposed) = rule.expose_headers.as_ref().filter(|exposed| !exposed.is_empty()) {
        set(ACCESS_CONTROL_EXPOSE_HEADERS, &exposed.join(", "));
    }
    if let Some(seconds) = rule.max_age_seconds {
        set(ACCESS_CONTROL_MAX_AGE, &seconds.to_string());
    }
    set(VARY, "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
    Some(headers)
}

/// The first of some names of headers that cannot be one.
pub(crate) fn bad_header(names: &str) -> Option<&str> {
    names.split(',').find(|name| !name.trim().bytes().all(is_of_name))
}

/// Whether names of headers, and patterns of them, may have it.
pub(crate) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn fits(rule: &CORSRule, asked: &CorsRequest<'_>) -> bool {
    let origin = rule.allowed_origins.iter().any(|origin| matches(origin, asked.origin));
    let method = rule.allowed_methods.iter().any(|method| method == asked.method);
    let allowed = |name: &str| {
        let name = name.to_ascii_lowercase();
        rule.allowed_headers
            .iter()
            .flatten()
            .any(|pattern| matches(&pattern.to_ascii_lowercase(), &name))
    };
    let headers = asked.headers.is_none_or(|headers| {
        headers.split(',').map(str::trim).filter(|name| !name.is_empty()).all(allowed)
    });
    origin && method && headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_answers() {
        let rule = |origin: &str, method: &str, headers: &[&str]| CORSRule {
            allowed_headers: Some(headers.iter().map(|header| (*header).to_owned()).collect()),
            allowed_methods: vec![method.to_owned()],
            allowed_origins: vec![origin.to_owned()],
            expose_headers: None,
            id: None,
            max_age_seconds: Some(5),
        };
        let configuration = CORSConfiguration {
            cors_rules: vec![rule("*suffix", "GET", &["x-*"]), rule("*", "PUT", &[])],
        };
        let ask = |origin, method, asked| {
            headers(&configuration, &CorsRequest { origin, method, headers: asked })
        };
        let found = ask("a.suffix", "GET", Some("X-One, x-two")).unwrap();
        assert_eq!(found[ACCESS_CONTROL_ALLOW_ORIGIN], "a.suffix");
        assert_eq!(found[ACCESS_CONTROL_MAX_AGE], "5");
        assert!(ask("a.suffix", "GET", Some("y")).is_none());
        assert_eq!(bad_header("x-one, a b,c"), Some(" a b"));
        assert_eq!(bad_header("x-one,, y"), None);
        assert!(ask("a.other", "GET", None).is_none());
        assert_eq!(ask("a.other", "PUT", None).unwrap()[ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    }
}
