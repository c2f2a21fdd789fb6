//! What to do about a shard that does not open: the hint of the failure that ends a start.

use varve_client::Failure;
use varve_dispatch::Error;
use varve_types::{ErrorKind, ShardId};

/// After a failure that nothing more is known of.
pub(super) const START_AGAIN: &str =
    "see whether drives are missing and whether the others work, and start again";

const DAMAGED: &str = "the data are out of reach while this is damaged: keep the drives as they are, or copy them, and run `varve check`, which says \
    what else is damaged";

/// The way out when the journal of a shard is lost.
const LANE_LOST: &str = "bring back the journal that the pool wrote last; if it is gone, start once with --accept-lost-journal, which gives up \
    what only the journal held: docs/operating/serve.md says what that can be";

/// Why a shard does not open, and what can be done about it.
pub(super) fn open_failed(shard: ShardId, error: &Error) -> Failure {
    Failure::new(format!("open shard {shard}: {error}")).hint(advice(error))
}

/// Whether something failed for what is damaged or cannot be read, while the rest is served.
pub(super) fn is_damage(error: &varve_dataset::Error) -> bool {
    let is_closed = match error {
        varve_dataset::Error::Dispatch(Error::ShardClosed { .. }) => true,
        varve_dataset::Error::Dispatch(error) => error.is_read_failure(),
        _ => false,
    };
    is_closed || error.kind() == ErrorKind::Corrupt
}

fn advice(error: &Error) -> &'static str {
    match error.kind() {
        _ if error.is_lane_lost() => LANE_LOST,
        ErrorKind::Corrupt => DAMAGED,
        ErrorKind::NoSpace => "make room on the file systems under the drives, and start again",
        ErrorKind::Unsupported => "start a newer version of varve; nothing was changed",
        _ => START_AGAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_host_is_to_be_made_room_on() {
        let full = varve_media::Error::NoSpace { path: "drive/segments".to_owned() };
        let shard = ShardId(2);
        let failure = open_failed(shard, &Error::Shard { shard, error: full.into() });
        assert!(failure.what().contains("no space left under drive/segments"), "{failure}");
        let advice = failure.advice().unwrap();
        assert!(advice.starts_with("make room on the file systems under the drives"), "{advice}");
    }
}
