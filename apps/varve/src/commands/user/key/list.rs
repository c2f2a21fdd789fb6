//! `varve user key list`: the public halves of a user's keys.

use clap::Args;
use serde_json::json;
use varve_access_admin::{user_path, v1};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};

use crate::cli::{self, Format};
use crate::commands::user::show::MORE_KEYS;

/// List the access keys of a user, without secrets
#[derive(Args, Debug)]
pub(crate) struct KeyList {
    /// Name of the user
    user: String,

    #[command(flatten)]
    format: Format,
}

impl KeyList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let user = client.get::<v1::User>(&user_path(&self.user))?.value;
        if self.format.json {
            let mut list = json!({ "access_keys": user.access_keys });
            if user.keys_incomplete {
                list["keys_incomplete"] = true.into();
            }
            return Ok(format!("{list:#}\n"));
        }
        if user.access_keys.is_empty() && !user.keys_incomplete {
            let name = user.name;
            return Ok(format!(
                "user {name} has no keys; create one with `varve user key create {name}`\n"
            ));
        }
        let rows = user.access_keys.into_iter();
        let rows: Vec<Vec<String>> =
            rows.map(|key| vec![key.access_key, age::since(key.created_unix_ms)]).collect();
        let table =
            table::columns(&[("ACCESS KEY", Align::Left), ("CREATED", Align::Right)], &rows);
        let reason = user.keys_incomplete.then_some(MORE_KEYS);
        Ok(table + &cli::incomplete(reason))
    }
}
