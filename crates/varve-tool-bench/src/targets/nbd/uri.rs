//! NBD URIs: `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`, with `%` escapes.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use varve_nbd::NbdAddress;

use crate::error::{Error, Result};

/// The port of NBD where none is named.
const PORT: u16 = 10_809;

/// An export of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdUri {
    /// Where the server listens.
    pub address: NbdAddress,
    /// Name of the export.
    pub export: String,
    text: String,
}

impl FromStr for NbdUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refused =
            |reason: &str| Error::Target { target: text.to_owned(), reason: reason.to_owned() };
        let decoded = |part: &str| {
            let decoded = percent_decode_str(part).decode_utf8();
            decoded.map(String::from).map_err(|_| refused("its escapes are no UTF-8"))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("no NBD URI"))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (host, export) = place.split_once('/').unwrap_or((place, ""));
        let export = decoded(export)?;
        let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
        let address = match (scheme, socket) {
            ("nbd", None) if host.is_empty() => return Err(refused("it names no host")),
            ("nbd", None) => NbdAddress::Tcp(with_port(&decoded(host)?)),
            ("nbd+unix", Some(socket)) if host.is_empty() => {
                NbdAddress::Unix(decoded(socket)?.into())
            }
            ("nbd+unix", _) => return Err(refused("write nbd+unix:///EXPORT?socket=PATH")),
            ("nbds" | "nbds+unix", _) => return Err(refused("TLS is not spoken")),
            _ => return Err(refused("write nbd://HOST[:PORT]/EXPORT")),
        };
        Ok(Self { address, export, text: text.to_owned() })
    }
}

fn with_port(host: &str) -> String {
    let after_address = host.rsplit(']').next().unwrap_or(host);
    if after_address.contains(':') { host.to_owned() } else { format!("{host}:{PORT}") }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_name_hosts_sockets_and_exports() {
        let read = |text: &str| {
            let uri: NbdUri = text.parse().unwrap();
            assert_eq!(uri.to_string(), text);
            (uri.address, uri.export)
        };
        let tcp = |host: &str| NbdAddress::Tcp(host.to_owned());
        assert_eq!(read("nbd://localhost"), (tcp("localhost:10809"), String::new()));
        assert_eq!(read("nbd://[::1]/v"), (tcp("[::1]:10809"), "v".to_owned()));
        assert_eq!(read("nbd://[::1]:99/a%20b"), (tcp("[::1]:99"), "a b".to_owned()));
        let unix = NbdAddress::Unix("/run/n b.sock".into());
        assert_eq!(read("nbd+unix:///v?socket=/run/n%20b.sock"), (unix, "v".to_owned()));
    }

    #[test]
    fn other_uris_are_refused() {
        for wrong in [
            "nbd:///v",
            "nbd+unix:///v",
            "nbd+unix://host/v?socket=/s",
            "nbd://h/v?socket=/s",
            "nbds://h/v",
            "nbd://h/%ff",
            "nbd",
        ] {
            assert!(wrong.parse::<NbdUri>().is_err(), "{wrong}");
        }
    }
}
