//! A pool on drives of this machine, as `varve pool create --drive` makes it: what it will be is said first.

use std::fmt::Write;
use std::io::{self, BufRead, IsTerminal};

use serde_json::json;
use varve_client::{Failure, Result};
use varve_daemon::config::{CONFIG_FILE, DriveSetting, Settings, read_data};
use varve_daemon::{NewLocalPool, PlannedPool, create_local_pool};
use varve_media_redundancy::{MediumKind, Protection};
use varve_types::ByteCount;

use crate::cli::{Format, Global};

/// What to make.
pub(crate) struct LocalPool {
    pub(crate) drives: Vec<DriveSetting>,
    pub(crate) protect: Option<Protection>,
    pub(crate) class: Option<MediumKind>,
    pub(crate) shards: u16,
    pub(crate) lane_size: ByteCount,
    /// Whether nobody is to be asked.
    pub(crate) is_agreed: bool,
    pub(crate) format: Format,
}

impl LocalPool {
    pub(crate) fn create(self, global: &Global) -> Result<String> {
        let data = global.data();
        let found = if data.join(CONFIG_FILE).exists() {
            read_data(&data)?
        } else {
            Settings { data, ..Settings::default() }
        };
        // What the command line does not say, the file may.
        let shards = if self.shards > 0 { self.shards } else { found.shards };
        let is_default = self.lane_size == Settings::default().lane;
        let lane = if is_default { found.lane } else { self.lane_size };
        let mut settings = Settings { drives: self.drives, shards, lane, ..found };
        settings.redundancy.protect = self.protect.or(settings.redundancy.protect);
        settings.redundancy.drive_class = self.class;
        let (is_agreed, is_json) = (self.is_agreed, self.format.json);
        if is_json && !is_agreed {
            return Err(Failure::misuse("a program cannot be asked whether to create the pool")
                .hint("add --yes"));
        }
        let made = create_local_pool(&settings, |plan| {
            if !is_json {
                crate::output::print(&described(plan))?;
            }
            if is_agreed { Ok(()) } else { ask("create it?", "nothing was created") }
        })?;
        if is_json {
            return Ok(as_json(&made));
        }
        let NewLocalPool { id, plan, .. } = made;
        let data = settings.data.display();
        let usable = plan.usable;
        Ok(format!(
            "pool {id} created: {usable} usable\nserve it with `varve serve --data {data}`\n"
        ))
    }
}

/// What it will hold and survive.
fn described(plan: &PlannedPool) -> String {
    let PlannedPool { protect, survives, drives, usable, raw } = plan;
    let plural = if drives.len() == 1 { "" } else { "s" };
    let lost = match survives {
        0 => "a lost drive loses the pool".to_owned(),
        1 => "survives the loss of any drive".to_owned(),
        lost => format!("survives the loss of any {lost} drives"),
    };
    let mut text =
        format!("{} drive{plural}, {protect}: {usable} usable of {raw}, {lost}\n", drives.len());
    if *survives == 0 && drives.len() > 1 {
        let _ = writeln!(
            text,
            "warning: no redundancy: the loss of one drive loses the pool; leave out --protect none to protect it"
        );
    }
    text
}

/// Asks on the terminal, if there is one.
pub(crate) fn ask(question: &str, refusal: &str) -> Result<()> {
    if !io::stdin().is_terminal() {
        return Err(Failure::misuse("nobody can be asked whether to go on")
            .hint("add --yes, or run it on a terminal"));
    }
    crate::output::print(&format!("{question} [y/N] "))?;
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("read the answer: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new(refusal)),
    }
}

fn as_json(made: &NewLocalPool) -> String {
    let NewLocalPool { plan, id, shards, segment_size_bytes } = made;
    let drives = plan.drives.iter().map(
        |drive| json!({ "path": drive.path.display().to_string(), "size_bytes": drive.size_bytes }),
    );
    let json = json!({
        "id": id,
        "shards": shards,
        "segment_size_bytes": segment_size_bytes,
        "protect": plan.protect,
        "survives": plan.survives,
        "usable_bytes": plan.usable.0,
        "raw_bytes": plan.raw.0,
        "drives": drives.collect::<Vec<_>>(),
    });
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pool_survives_is_said_before_it_is_made() {
        let plan = |protect: &str, survives, drives| PlannedPool {
            protect: protect.to_owned(),
            survives,
            drives: vec![varve_daemon::drives::DriveEntry::default(); drives],
            usable: ByteCount(20 << 30),
            raw: ByteCount(40 << 30),
        };
        let text = described(&plan("ec:4+2", 2, 6));
        let expected =
            "6 drives, ec:4+2: 20 GiB usable of 40 GiB, survives the loss of any 2 drives\n";
        assert_eq!(text, expected);
        assert!(described(&plan("mirror:2", 1, 2)).contains("the loss of any drive\n"));
        let none = described(&plan("none", 0, 2));
        assert!(none.contains("warning: no redundancy") && none.lines().count() == 2, "{none}");
        assert!(!described(&plan("none", 0, 1)).contains("warning"), "a single one is as usual");
    }
}
