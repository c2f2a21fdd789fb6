//! `varve pool upgrade`: lets a pool of an earlier format have redundancy over drives.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use varve_client::{Failure, Result};
use varve_daemon::config::{CONFIG_FILE, Settings, read_data};
use varve_daemon::{UpgradedPool, upgrade_pool};

use crate::cli::{Format, Global};
use crate::local_pool::ask;

/// Let a pool on drives that was created without redundancy have it, while no daemon serves it
///
/// Takes seconds, and moves no data: the pool has one copy as before. Then drives can be added, and `varve pool set
/// --protect` converts it while it serves. Earlier versions do not open it any more. If it is interrupted, run it
/// again.
#[derive(Args, Debug)]
pub(crate) struct PoolUpgrade {
    /// Upgrade it without asking
    #[arg(long)]
    yes: bool,

    #[command(flatten)]
    format: Format,
}

impl PoolUpgrade {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        global.refuse_addr()?;
        let data = global.data();
        let settings = if data.join(CONFIG_FILE).exists() {
            read_data(&data)?
        } else {
            Settings { data, ..Settings::default() }
        };
        let (is_agreed, is_json) = (self.yes, self.format.json);
        if is_json && !is_agreed {
            return Err(Failure::misuse("a program cannot be asked whether to upgrade the pool")
                .hint("add --yes"));
        }
        let pool = upgrade_pool(&settings, |drives| {
            if is_agreed {
                return Ok(());
            }
            crate::output::print(&described(drives))?;
            ask("upgrade it?", "nothing was changed")
        })?;
        Ok(if is_json { as_json(&pool) } else { summary(&pool) })
    }
}

/// What will be changed.
fn described(drives: &[PathBuf]) -> String {
    let mut text = String::new();
    for drive in drives {
        let _ = writeln!(text, "{}", drive.display());
    }
    text.push_str("earlier versions will not open the pool on these drives any more\n");
    text
}

fn summary(pool: &UpgradedPool) -> String {
    let done = if pool.was_begun { "an upgrade that was begun has ended" } else { "upgraded" };
    let id = &pool.id;
    format!(
        "pool {id}: {done}\nserve it, add drives with `varve drive add`, then convert it with `varve pool set --protect`\n"
    )
}

fn as_json(pool: &UpgradedPool) -> String {
    let drives: Vec<String> = pool.drives.iter().map(|path| path.display().to_string()).collect();
    let json = json!({ "id": pool.id, "drives": drives, "was_begun": pool.was_begun });
    format!("{json:#}\n")
}
