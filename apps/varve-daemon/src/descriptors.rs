//! Descriptors of files: how many the process may have, and how many each front-end's connections may take, so that
//! those of one leave room to the others.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use varve_access_nbd::ConnectionLimit;

use crate::config::Settings;

/// For drives, rings, logs, connections to other nodes, the admin API and clients that are told why they are refused.
const OWN: usize = 320;

/// Most connections of S3.
const S3_MAX: usize = 4096;

/// Least connections of a front-end, whatever the limit is.
const LEAST: usize = 16;

/// Raises the limit of this process as far as it may be without rights.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// What NBD may take.
pub(super) fn nbd_connections(settings: &Settings) -> ConnectionLimit {
    let wanted = settings.nbd_connections_max();
    let shares = Shares::now(settings);
    if shares.nbd < wanted {
        tracing::warn!(
            wanted,
            most = shares.nbd,
            "fewer NBD connections than nbd.connections_max: raise the limit of open files"
        );
    }
    ConnectionLimit::new(shares.nbd).per_address(settings.nbd_connections_per_address())
}

/// Most connections of S3.
pub(super) fn s3_connections(settings: &Settings) -> usize {
    Shares::now(settings).s3
}

/// Connections of each front-end.
#[derive(PartialEq, Eq, Debug)]
struct Shares {
    nbd: usize,
    s3: usize,
}

impl Shares {
    fn now(settings: &Settings) -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Self::of(limit, settings.nbd_connections_max())
    }

    /// NBD gets what it wants of half, S3 what is left.
    fn of(limit: usize, nbd_wanted: usize) -> Self {
        let free = limit.saturating_sub(OWN);
        let nbd = nbd_wanted.min((free / 2).max(LEAST));
        Self { nbd, s3: (free - nbd.min(free)).clamp(LEAST, S3_MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_ends_leave_room_to_each_other() {
        assert_eq!(Shares::of(1 << 20, 1024), Shares { nbd: 1024, s3: S3_MAX });
        assert_eq!(Shares::of(1024, 1024), Shares { nbd: 352, s3: 352 });
        assert_eq!(Shares::of(4096, 1024), Shares { nbd: 1024, s3: 2752 });
        for limit in [400, 1000, 5000, 100_000] {
            let Shares { nbd, s3 } = Shares::of(limit, 4096);
            assert!(nbd + s3 + OWN <= limit, "{limit}");
        }
    }
}
