//! Users and access keys, which go over before the buckets that they own: those that the target lacks are added, none
//! is replaced.

use hyper::Method;
use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{AddedUsersAndKeys, UsersAndKeys};
use varve_client::{Failure, Result};

use super::side::{MigrationRun, MigrationSide};

const PATH: &str = "/v1/users-and-keys";

impl MigrationSide {
    fn users_and_keys(&self, after: Option<&str>) -> Result<UsersAndKeys> {
        let after =
            after.map_or_else(String::new, |after| format!("?after={}", percent_encoded(after)));
        self.client.page(&format!("{PATH}{after}"))
    }
}

/// Why no bucket can be moved: what one of the two has sealed cannot be read by the other.
pub(super) fn obstacle(run: &MigrationRun) -> Result<Option<Failure>> {
    let there = run.source.users_and_keys(None)?.key_check;
    let here = run.target.users_and_keys(None)?.key_check;
    let differ = || {
        Failure::new(
            "the two daemons have different `s3.key` files: the target could not read secrets and objects that the source's sealed",
        )
        .hint("copy the source's `s3.key` into the target's data directory before its first start")
    };
    Ok((there != here).then(differ))
}

/// Takes them along, where nothing is in the way; what is to be said of it.
pub(super) fn take_along(run: &MigrationRun) -> Result<Vec<String>> {
    let mut all = AddedUsersAndKeys::default();
    let mut after = None;
    loop {
        let mut page = run.source.users_and_keys(after.as_deref())?;
        after = page.next.take();
        let added = run.target.client.send::<AddedUsersAndKeys>(Method::POST, PATH, &page)?.value;
        all.added_users.extend(added.added_users);
        all.added_keys.extend(added.added_keys);
        all.kept.extend(added.kept);
        if after.is_none() {
            return Ok(notes(&all));
        }
    }
}

fn notes(all: &AddedUsersAndKeys) -> Vec<String> {
    let said = [
        ("users that were added at the target", &all.added_users),
        ("access keys that were added at the target", &all.added_keys),
        (
            "users and access keys that are others at the target, and stay as they are there",
            &all.kept,
        ),
    ];
    let said = said.into_iter().filter(|(_, names)| !names.is_empty());
    said.map(|(what, names)| format!("{what}: {}", names.join(", "))).collect()
}
