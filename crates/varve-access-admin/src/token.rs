//! The token of the admin API: whoever calls it by TCP shows it as `authorization: Bearer TOKEN`.
//!
//! The unix socket needs none: its mode lets in its owner alone. TCP, of loopback too, lets in every user of the
//! machine, its containers and, by way of a browser, web pages.

use axum::http::{HeaderMap, header};

use crate::error::{Error, Result};

/// Shortest token, in characters: 128 bits in hexadecimal.
const CHARS_MIN: usize = 32;
/// Longest one.
const CHARS_MAX: usize = 512;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// The token in the text of a file, which may end in white space.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let token = text.trim();
        let is_good = (CHARS_MIN..=CHARS_MAX).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_good.then(|| Self(token.to_owned()))
    }

    /// The token of these random bytes.
    #[must_use]
    pub fn of(random: [u8; 32]) -> Self {
        Self(varve_stdx::hex(&random))
    }

    /// As it stands in its file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Value of the header that shows it.
    #[must_use]
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    /// Whether a request shows it. Takes as long for any token of the same length.
    fn is_shown(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let Some(shown) = value.and_then(bearer) else { return false };
        let pairs = shown.bytes().zip(self.0.bytes());
        shown.len() == self.0.len() && pairs.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Refuses a request for a path that came by TCP: one that does not name this machine's loopback address as its host,
/// or does not show the token. Where there is no token, nobody can show it. Health endpoints need neither.
///
/// # Errors
/// `Host` and `Token`.
pub fn check_caller(path: &str, headers: &HeaderMap, token: Option<&Token>) -> Result<()> {
    if crate::v1::is_open(path) {
        return Ok(());
    }
    crate::server::check_host(headers)?;
    match token {
        Some(token) if token.is_shown(headers) => Ok(()),
        _ => Err(Error::Token { is_shown: headers.contains_key(header::AUTHORIZATION) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str, authorization: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(value) = authorization {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn only_whoever_shows_the_token_passes() {
        let token = Token::of([7; 32]);
        let check = |authorization: Option<&str>| {
            check_caller("/v1/status", &headers("localhost", authorization), Some(&token))
        };
        check(Some(&token.header())).unwrap();
        check(Some(&format!("bearer {}", token.text()))).unwrap();
        let longer = format!("{}0", token.header());
        for wrong in [None, Some("Bearer"), Some("Bearer "), Some(token.text()), Some(&longer)] {
            assert!(matches!(check(wrong), Err(Error::Token { .. })), "{wrong:?}");
        }
        let right = headers("localhost", Some(&token.header()));
        assert!(matches!(check_caller("/metrics", &right, None), Err(Error::Token { .. })));
        let foreign = headers("evil.example", Some(&token.header()));
        assert!(matches!(
            check_caller("/metrics", &foreign, Some(&token)),
            Err(Error::Host { .. })
        ));
    }

    #[test]
    fn a_file_holds_a_token_or_nothing() {
        let token = Token::of([7; 32]);
        assert_eq!(Token::parse(&format!("{}\n", token.text())), Some(token));
        for text in ["", "\n", "short", &"a b".repeat(20), &"x".repeat(600)] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }
}
