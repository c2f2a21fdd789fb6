//! `varve volume snapshot delete`: deletes snapshots; volumes, clones and other snapshots stay as they are.

use clap::Args;

use super::parts;
use crate::client::{Client, snapshot_path};
use crate::failure::{Failure, Result};

/// Delete snapshots; refused while they are protected or open
#[derive(Args, Debug)]
#[command(
    after_help = "Deletes one after another and ends at the first that is refused. Volumes, clones and other snapshots \
    stay as they are."
)]
pub(crate) struct Delete {
    /// Names of the snapshots
    #[arg(required = true, value_name = "VOLUME@SNAPSHOT")]
    names: Vec<String>,
}

impl Delete {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        self.names.iter().try_for_each(|name| parts(name).map(|_| ()))?;
        let mut text = String::new();
        for name in &self.names {
            client.delete(&snapshot_path(name)).map_err(|failure| match text.is_empty() {
                true => failure,
                false => Failure::new(format!("{} (those before it are deleted)", failure.what()))
                    .hint("`varve volume snapshot list` shows those that are left"),
            })?;
            text.push_str(&format!("deleted snapshot {name}\n"));
        }
        Ok(text)
    }
}
