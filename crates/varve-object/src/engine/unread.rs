//! Shards that could not be read when the store was opened, mostly as they are damaged: what buckets and records are
//! there is not known.
//!
//! UNREAD-1. They stay unread until the store is opened again, also when they serve meanwhile: what is in memory was
//!     loaded without them.
//! UNREAD-2. What is not known and would be there fails as unread, before anything is created under its name.

use std::collections::BTreeSet;

use varve_types::{ErrorKind, ShardId};

use crate::{Error, Result};

/// The shards.
#[derive(Debug, Default)]
pub(super) struct UnreadShards(BTreeSet<ShardId>);

/// Whether something failed as a shard does not serve, cannot be read, or is damaged.
pub(super) fn is_out_of_reach(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Corrupt)
}

impl UnreadShards {
    /// Adds a shard that does not serve, cannot be read, or is damaged.
    ///
    /// # Errors
    /// Any other failure, as it is.
    pub(super) fn add(&mut self, shard: ShardId, error: Error) -> Result<()> {
        if !is_out_of_reach(&error) {
            return Err(error);
        }
        tracing::error!(
            shard = shard.0,
            %error,
            "S3 users and buckets of this shard are not known until the daemon starts with it whole; the others are served"
        );
        self.0.insert(shard);
        Ok(())
    }

    pub(super) fn contains(&self, shard: ShardId) -> bool {
        self.0.contains(&shard)
    }

    /// Fails where there is one.
    pub(super) fn check_none(&self, what: impl FnOnce() -> String) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let noun = if numbers.len() == 1 { "shard" } else { "shards" };
        Err(Error::Unread { what: what(), shards: format!("{noun} {}", numbers.join(", ")) })
    }

    /// Fails where what has this home may be unread (UNREAD-2).
    pub(super) fn check(&self, home: ShardId, what: impl FnOnce() -> String) -> Result<()> {
        if !self.contains(home) {
            return Ok(());
        }
        Err(Error::Unread { what: what(), shards: format!("shard {home}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_damage_and_absence_leave_a_shard_unread() {
        let mut unread = UnreadShards::default();
        unread.check_none(|| unreachable!("nothing is unread")).unwrap();
        let what = || "it".to_owned();
        assert_eq!(unread.add(ShardId(0), Error::NoSpace), Err(Error::NoSpace));
        unread.check(ShardId(0), what).unwrap();
        unread.add(ShardId(2), Error::Corrupt { what: what() }).unwrap();
        unread.check(ShardId(0), what).unwrap();
        let said = unread.check(ShardId(2), what).unwrap_err();
        assert!(said.to_string().starts_with("it may be on shard 2, which"), "{said}");
        assert_eq!(said.kind(), ErrorKind::Unavailable);
        unread.add(ShardId(1), Error::Unavailable { what: what() }).unwrap();
        let said = unread.check_none(what).unwrap_err();
        assert!(said.to_string().starts_with("it may be on shards 1, 2, which"), "{said}");
    }
}
