//! Which targets are those of the daemon that commands call: what it listens at is compared with where a load goes.

use std::fs;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use varve_access_admin::ListenAddress;
use varve_access_admin::v1::{self, ListenerStatus};
use varve_client::Client;
use varve_tool_bench::fio::FioPlace;
use varve_tool_bench::{NbdAddress, NbdUri, Target};

use super::plan::LoadTarget;

/// Where a daemon says how it is.
pub(super) const STATUS: &str = "/v1/status";

/// The daemon of `--data` or `--addr`, and what it says of itself, if the load goes to it. None of other targets, and
/// none when it does not answer.
pub(super) fn serving(goal: &LoadTarget, client: &Client) -> Option<(Client, v1::Status)> {
    let place = LoadPlace::of(goal)?;
    let status = client.get::<v1::Status>(STATUS).ok()?.value;
    let is_its = status.listeners.iter().any(|listener| place.is_at(listener, client));
    (is_its || place == LoadPlace::Own).then(|| (client.clone(), status))
}

/// Where a load goes, if that may be a daemon's.
#[derive(PartialEq, Debug)]
enum LoadPlace {
    /// Volumes that the daemon itself has made.
    Own,
    Unix(PathBuf),
    /// `HOST:PORT`, and the protocol that is spoken there as a daemon calls it.
    Tcp {
        protocol: &'static str,
        host: String,
    },
}

impl LoadPlace {
    fn of(goal: &LoadTarget) -> Option<Self> {
        let of_uri = |uri: &NbdUri| match &uri.address {
            NbdAddress::Unix(path) => Self::Unix(path.clone()),
            NbdAddress::Tcp(host) => Self::Tcp { protocol: "nbd", host: host.clone() },
        };
        match goal {
            LoadTarget::Volumes(_) => Some(Self::Own),
            LoadTarget::Disk(Target::Nbd(uri)) => Some(of_uri(uri)),
            LoadTarget::Fio(goal) => match &goal.place {
                FioPlace::Nbd(uri) => uri.parse().ok().map(|uri| of_uri(&uri)),
                FioPlace::File(_) | FioPlace::Rbd { .. } => None,
            },
            LoadTarget::Objects(plan) => {
                let host = plan.bucket.server.host.clone();
                Some(Self::Tcp { protocol: "s3", host })
            }
            LoadTarget::Disk(_) | LoadTarget::Engine(_) | LoadTarget::Rados(_) => None,
        }
    }

    fn is_at(&self, listener: &ListenerStatus, client: &Client) -> bool {
        match (self, listener.address.parse()) {
            (Self::Unix(path), Ok(ListenAddress::Unix(socket))) => is_same_file(path, &socket),
            (Self::Tcp { protocol, host }, Ok(ListenAddress::Tcp(address))) => {
                let mut hosts = host.to_socket_addrs().into_iter().flatten();
                *protocol == listener.protocol && hosts.any(|host| meets(host, address, client))
            }
            _ => false,
        }
    }
}

/// Whether two paths lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let number_of_one = number(one);
    number_of_one.is_some() && number_of_one == number(other)
}

/// Whether who connects to `host` comes to a daemon that listens at `listener`.
fn meets(host: SocketAddr, listener: SocketAddr, client: &Client) -> bool {
    if host.port() != listener.port() {
        return false;
    }
    if !listener.ip().is_unspecified() {
        return host.ip() == listener.ip();
    }
    // It listens at every address of its machine: that of the admin API, or all of this one.
    match client.address() {
        ListenAddress::Tcp(admin) if !admin.ip().is_loopback() => admin.ip() == host.ip(),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => is_of_this_machine(host.ip()),
    }
}

/// Whether an address is one of this machine's: no other can be bound.
fn is_of_this_machine(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(addr: Option<&str>) -> Client {
        let of_data = || Client::of_data(Path::new("varve-data"));
        addr.map_or_else(of_data, |addr| Client::at(addr.parse().unwrap()))
    }

    #[test]
    fn targets_of_a_daemon_are_known_by_its_listeners() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nbd.sock");
        fs::write(&socket, "").unwrap();
        std::os::unix::fs::symlink(&socket, dir.path().join("other")).unwrap();
        let listener = |protocol: &str, address: &str| ListenerStatus {
            protocol: protocol.to_owned(),
            address: address.to_owned(),
        };
        let is_at = |target: &str, listens: &ListenerStatus, addr| {
            let uri = target.parse().unwrap();
            LoadPlace::of(&LoadTarget::Disk(Target::Nbd(uri)))
                .unwrap()
                .is_at(listens, &client(addr))
        };
        let unix = listener("nbd", &format!("unix:{}", socket.display()));
        let of = |name: &str| format!("nbd+unix:///v?socket={}", dir.path().join(name).display());
        assert!(is_at(&of("nbd.sock"), &unix, None) && is_at(&of("other"), &unix, None));
        assert!(!is_at(&of("missing"), &unix, None));
        let tcp = listener("nbd", "127.0.0.1:99");
        assert!(is_at("nbd://127.0.0.1:99/v", &tcp, None));
        assert!(!is_at("nbd://127.0.0.1:98/v", &tcp, None));
        assert!(!is_at("nbd://127.0.0.1:99/v", &listener("s3", "127.0.0.1:99"), None));
        // Addresses for examples, which no machine has.
        let (any, away) = (listener("nbd", "0.0.0.0:99"), "nbd://192.0.2.1:99/v");
        assert!(is_at("nbd://127.0.0.1:99/v", &any, None) && !is_at(away, &any, None));
        assert!(is_at(away, &any, Some("192.0.2.1:80")));
        assert!(!is_at("nbd://127.0.0.1:99/v", &any, Some("192.0.2.1:80")));
        assert!(LoadPlace::of(&LoadTarget::Disk("null:1GiB".parse().unwrap())).is_none());
    }
}
