//! Where a front-end listens and where its clients connect: a unix socket or a TCP address.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// A unix socket path or a TCP address. Its text is `unix:PATH` or `HOST:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// An IP address and port.
    Tcp(SocketAddr),
}

impl ListenAddress {
    /// Whether only this machine can reach the address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(address) => address.ip().is_loopback(),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "{address}"),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    /// Reads `unix:PATH`, `IP:PORT`, `[IPv6]:PORT` or `localhost:PORT`. Names are not looked up.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err("`unix:` lacks the path of the socket".to_owned());
            }
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let numeric = match text.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.to_owned(),
        };
        numeric.parse().map(Self::Tcp).map_err(|_| {
            format!("address `{text}` is neither `unix:PATH` nor `IP:PORT` such as 127.0.0.1:10809")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_through_text() {
        for text in ["unix:/run/varve/nbd.sock", "127.0.0.1:10809", "[::1]:10809"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        let named = "localhost:80".parse::<ListenAddress>().unwrap();
        assert_eq!(named.to_string(), "127.0.0.1:80");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "unix:", "example.org:80", "127.0.0.1", "127.0.0.1:99999", "/run/x"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_sockets_and_loopback_are_local() {
        assert!("unix:x".parse::<ListenAddress>().unwrap().is_local());
        assert!("127.9.9.9:1".parse::<ListenAddress>().unwrap().is_local());
        assert!(!"0.0.0.0:1".parse::<ListenAddress>().unwrap().is_local());
    }
}
