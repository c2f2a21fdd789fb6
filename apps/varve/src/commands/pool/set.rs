//! `varve pool set`: how the pool keeps data over its drives.

use std::fmt::Write as _;

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{ChangePool, Pool, PoolChange};
use varve_client::{Client, Failure, Result};
use varve_media_redundancy::{MediumKinds, Protection};
use varve_types::ByteCount;

use crate::cli::Format;
use crate::local_pool::ask;
use crate::waiting::{MoveEnd, WaitFlag, wait_for_moves};

/// Change how the pool keeps data over its drives, and convert what is stored, while it serves
///
/// It says first what the pool holds and survives then, and is refused where drives are too few or have no room.
/// Clients go on meanwhile. It goes on after a restart, and can be turned around at any time.
#[derive(Args, Debug)]
pub(crate) struct PoolSet {
    /// How data are to be kept: none, mirror:N or ec:K+M
    #[arg(long, value_name = "CLASS", required_unless_present_any = ["cancel", "data_class", "journal_class"])]
    protect: Option<Protection>,

    /// Classes of the drives that data are to lie on: any, or some of nvme, ssd and hdd, as ssd,nvme
    #[arg(long, value_name = "CLASSES")]
    data_class: Option<MediumKinds>,

    /// Classes of the drives that copies of journals are to be on, while enough are there: any, or some, as nvme
    #[arg(long, value_name = "CLASSES")]
    journal_class: Option<MediumKinds>,

    /// Turn a conversion around: back to how most of what is not converted is kept
    #[arg(long, conflicts_with_all = ["protect", "data_class", "journal_class"])]
    cancel: bool,

    /// Give redundancy up without asking
    #[arg(long)]
    yes: bool,

    /// Only say what would follow
    #[arg(long, conflicts_with = "wait")]
    dry_run: bool,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl PoolSet {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let change = ChangePool {
            protect: self.protect.map(|protect| protect.to_string()),
            data_class: self.data_class.map(|kinds| kinds.to_string()),
            journal_class: self.journal_class.map(|kinds| kinds.to_string()),
            cancel: self.cancel,
            dry_run: self.dry_run,
        };
        if self.protect == Some(Protection::NONE) && !self.yes && !self.dry_run {
            agree_to_none(client, &change)?;
        }
        let answer = client.send::<PoolChange>(Method::PATCH, "/v1/pool", &change)?;
        if !self.wait.is_set() {
            return Ok(answer.print(self.format.json, |change| describe(&change)));
        }
        if !self.format.json {
            crate::output::print(&describe(&answer.value))?;
        }
        let protect = &answer.value.protect;
        let ended = wait_for_moves(client, MoveEnd::Converted)?;
        check_class(client, protect)?;
        Ok(ended.print(self.format.json, |_| format!("all zones are {protect}\n")))
    }
}

/// Has somebody say that data need not survive the loss of a drive any more.
fn agree_to_none(client: &Client, change: &ChangePool) -> Result<()> {
    let dry = ChangePool { dry_run: true, ..change.clone() };
    let outlook = client.send::<PoolChange>(Method::PATCH, "/v1/pool", &dry)?.value;
    if outlook.protect_before == outlook.protect {
        return Ok(());
    }
    let before = outlook.protect_before;
    let question =
        format!("data are {before} now, and will not survive a lost drive: convert them?");
    ask(&question, "nothing was changed")
}

/// What follows, in a few lines.
fn describe(change: &PoolChange) -> String {
    let PoolChange { protect, protect_before, survives, unconverted, .. } = change;
    let sizes = [change.usable_bytes, change.raw_bytes, change.usable_before_bytes];
    let [usable, raw, before] = sizes.map(ByteCount);
    let lost = match survives {
        0 => "a lost drive loses the pool".to_owned(),
        1 => "survives the loss of any drive".to_owned(),
        lost => format!("survives the loss of any {lost} drives"),
    };
    let on = match change.data_class.as_str() {
        "any" | "" => String::new(),
        classes => format!(" on drives of class {classes}"),
    };
    let mut text =
        format!("{protect}{on}: {usable} usable of {raw}, {lost} ({protect_before}: {before})\n");
    if !matches!(change.journal_class.as_str(), "any" | "") {
        let _ = writeln!(text, "journals on drives of class {}", change.journal_class);
    }
    let zones =
        if *unconverted == 1 { "1 zone".to_owned() } else { format!("{unconverted} zones") };
    let _ = match (change.dry_run, unconverted) {
        (true, _) => writeln!(text, "{zones} would be converted; nothing was changed"),
        (false, 0) => writeln!(text, "nothing has to be converted"),
        (false, _) => writeln!(
            text,
            "{zones} are converted while the pool serves; `varve drive moves` shows how far that is"
        ),
    };
    text
}

/// Fails where somebody else had the pool be of another class meanwhile.
fn check_class(client: &Client, protect: &str) -> Result<()> {
    let pool = client.get::<Pool>("/v1/pool")?.value;
    if pool.protect.as_deref() == Some(protect) {
        return Ok(());
    }
    let found = pool.protect.unwrap_or_default();
    Err(Failure::new(format!("the pool was set to {found} meanwhile"))
        .hint("`varve pool show` says how data are kept"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_said_with_what_was() {
        let change = PoolChange {
            protect: "ec:4+2".to_owned(),
            protect_before: "mirror:2".to_owned(),
            data_class: "any".to_owned(),
            journal_class: "nvme".to_owned(),
            survives: 2,
            usable_bytes: 40 << 30,
            usable_before_bytes: 30 << 30,
            raw_bytes: 60 << 30,
            zones: 9,
            unconverted: 9,
            dry_run: false,
        };
        let text = describe(&change);
        let expected = "ec:4+2: 40 GiB usable of 60 GiB, survives the loss of any 2 drives (mirror:2: 30 GiB)\njournals on drives of class nvme\n9 zones are converted";
        assert!(text.starts_with(expected), "{text}");
        let dry = describe(&PoolChange { dry_run: true, unconverted: 1, ..change.clone() });
        assert!(dry.ends_with("1 zone would be converted; nothing was changed\n"), "{dry}");
        let on = describe(&PoolChange { data_class: "ssd,nvme".to_owned(), ..change.clone() });
        assert!(on.starts_with("ec:4+2 on drives of class ssd,nvme: 40 GiB"), "{on}");
        let none = describe(&PoolChange { unconverted: 0, survives: 0, ..change });
        assert!(none.contains("a lost drive loses the pool"), "{none}");
        assert!(none.ends_with("nothing has to be converted\n"), "{none}");
    }
}
