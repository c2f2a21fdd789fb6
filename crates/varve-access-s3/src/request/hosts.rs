//! Buckets that the host of a request names: `BUCKET.DOMAIN`, with the domains of `Options::domains`. Called for each
//! request (`front`), and by the protocol library.

use hyper::HeaderMap;
use hyper::header::HOST;
use s3s::S3Result;
use s3s::host::{S3Host, VirtualHost};

/// The domains, in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains(Vec<String>);

impl Domains {
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.trim_matches('.').to_ascii_lowercase()).collect())
    }

    /// The bucket that a host names: what stands before the longest domain it ends in. A domain itself names none.
    pub(crate) fn bucket_of(&self, host: &str) -> Option<String> {
        let host = without_port(host).to_ascii_lowercase();
        if self.0.contains(&host) {
            return None;
        }
        let named = |domain: &String| host.strip_suffix(domain.as_str())?.strip_suffix('.');
        let bucket = self.0.iter().filter_map(named).min_by_key(|bucket| bucket.len());
        bucket.filter(|bucket| !bucket.is_empty()).map(str::to_owned)
    }

    /// The same of the headers of a request.
    pub(crate) fn bucket_in(&self, headers: &HeaderMap) -> Option<String> {
        self.bucket_of(headers.get(HOST)?.to_str().ok()?)
    }
}

/// A host without its port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

impl S3Host for Domains {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let parsed = VirtualHost::new(host);
        Ok(match self.bucket_of(host) {
            Some(bucket) => parsed.with_bucket(bucket),
            None => parsed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_stands_before_a_domain() {
        let domains = Domains::new(&["s3.example.com".to_owned(), "Example.com".to_owned()]);
        for (host, wanted) in [
            ("b.s3.example.com", Some("b")),
            ("b.s3.example.com:9000", Some("b")),
            ("B.S3.EXAMPLE.COM", Some("b")),
            ("my.bucket.s3.example.com", Some("my.bucket")),
            ("b.example.com", Some("b")),
            ("s3.example.com", None),
            ("example.com:80", None),
            (".s3.example.com", None),
            ("bs3.example.org", None),
            ("127.0.0.1:9000", None),
            ("[::1]:9000", None),
        ] {
            assert_eq!(domains.bucket_of(host).as_deref(), wanted, "{host}");
        }
        assert_eq!(Domains::default().bucket_of("b.s3.example.com"), None);
    }
}
