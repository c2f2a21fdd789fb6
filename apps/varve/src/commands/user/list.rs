//! `varve user list`: every user of S3, by name.

use clap::Args;
use serde_json::json;
use varve_access_admin::percent_encoded;
use varve_access_admin::v1::{self, UserPage};
use varve_client::table::{self, Align};
use varve_client::{Client, Result, age};

use crate::cli::{self, Format};

/// List S3 users
#[derive(Args, Debug)]
pub(crate) struct UserList {
    #[command(flatten)]
    format: Format,
}

impl UserList {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let (mut users, mut incomplete) = (Vec::new(), None);
        let mut path = "/v1/users".to_owned();
        loop {
            let page = client.get::<UserPage>(&path)?.value;
            users.extend(page.users);
            incomplete = incomplete.or(page.incomplete);
            match page.next {
                Some(after) => path = format!("/v1/users?after={}", percent_encoded(&after)),
                None => break,
            }
        }
        if self.format.json {
            let mut list = json!({ "users": users });
            if let Some(reason) = incomplete {
                list["incomplete"] = reason.into();
            }
            return Ok(format!("{list:#}\n"));
        }
        if users.is_empty() && incomplete.is_none() {
            return Ok("no users; make one with `varve user create NAME`\n".to_owned());
        }
        let rows: Vec<Vec<String>> = users.iter().map(row).collect();
        let header = [
            ("NAME", Align::Left),
            ("ADMIN", Align::Left),
            ("POLICY", Align::Left),
            ("KEYS", Align::Right),
            ("QUOTA", Align::Right),
            ("BUCKET LIMIT", Align::Right),
            ("CREATED", Align::Right),
        ];
        Ok(table::columns(&header, &rows) + &cli::incomplete(incomplete.as_deref()))
    }
}

fn row(user: &v1::User) -> Vec<String> {
    vec![
        user.name.clone(),
        yes_no(user.admin),
        yes_no(user.policy.is_some()),
        format!("{}{}", user.access_keys.len(), if user.keys_incomplete { "+" } else { "" }),
        cli::shown_quota(user.quota_bytes),
        cli::shown_bound(user.quota_buckets),
        age::since(user.created_unix_ms),
    ]
}

fn yes_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}
