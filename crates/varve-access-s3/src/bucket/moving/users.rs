//! Users and access keys from one pool to another, as they are stored.
//!
//! MOVING-USERS-1. Nothing that is there is replaced.
//! MOVING-USERS-2. What this gateway could not load is refused: a secret that its key does not open would keep it from
//!     starting.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use varve_object::RecordTable;

use crate::answers::error::{Error, Result};
use crate::gateway::Gateway;
use crate::identity::stored_users::{AddedUsers, StoredUsers};

/// Records read at a time.
const PAGE: usize = 500;

/// A page ends behind so many bytes of records.
const PAGE_BYTES_MAX: usize = 512 << 10;

/// What the places of users and keys begin with in listings.
const USER: &str = "user/";
const KEY: &str = "key/";

impl Gateway {
    /// Equal where secrets are sealed with the same key; it tells nothing else of it.
    #[must_use]
    pub fn key_check(&self) -> String {
        BASE64_STANDARD.encode(self.inner.master.check())
    }

    /// Users, then access keys, behind the place that an earlier page ended with.
    ///
    /// # Errors
    /// `Invalid` for a place that no page ends with, those of the store.
    pub async fn users_and_keys(&self, after: Option<&str>) -> Result<StoredUsers> {
        let place = after.unwrap_or(USER);
        let (table, prefix, name) = match (place.strip_prefix(USER), place.strip_prefix(KEY)) {
            (Some(name), _) => (RecordTable::User, USER, name),
            (None, Some(name)) => (RecordTable::AccessKey, KEY, name),
            (None, None) => {
                return Err(Error::Invalid { what: format!("no page ends with `{place}`") });
            }
        };
        self.inner.store.check_all_read()?;
        let found = self.inner.store.list_records(table, name, PAGE).await?;
        let (mut records, mut bytes, mut is_whole) = (Vec::new(), 0, found.len() < PAGE);
        for (name, record) in found {
            if bytes >= PAGE_BYTES_MAX {
                is_whole = false;
                break;
            }
            bytes += record.len();
            records.push((name, record));
        }
        let next = match (records.last(), is_whole) {
            (Some((last, _)), false) => Some(format!("{prefix}{last}")),
            _ => (prefix == USER).then(|| KEY.to_owned()),
        };
        let none = Vec::new();
        let (users, keys) = if prefix == USER { (records, none) } else { (none, records) };
        Ok(StoredUsers { users, keys, next })
    }

    /// Adds users and access keys that are not there (MOVING-USERS-1). Durable on return; counts for the next request.
    ///
    /// # Errors
    /// `Conflict` when secrets were sealed with another key, `Invalid` (MOVING-USERS-2), those of the store.
    pub async fn add_users_and_keys(
        &self,
        key_check: &str,
        all: StoredUsers,
    ) -> Result<AddedUsers> {
        if key_check != self.key_check() {
            let what = "secrets of the other pool are sealed with another key".to_owned();
            return Err(Error::Conflict { what });
        }
        self.inner.users.add_stored(all).await
    }
}
