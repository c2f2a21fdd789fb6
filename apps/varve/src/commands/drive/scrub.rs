//! `varve drive scrub`: begins, ends and shows scrubs.

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{DriveFaultCount, ScrubState, ScrubStatus, StartScrub};
use varve_client::{Client, Failure, Result, age, table};
use varve_types::ByteCount;

use super::moves::numbers;
use super::number_of;
use crate::cli::Format;
use crate::waiting::WaitFlag;

/// Read all that drives hold and compare it, while the pool serves
///
/// What is wrong is counted against its drive, and written anew elsewhere from what is right.
#[derive(Args, Debug)]
pub(crate) struct DriveScrub {
    /// Only zones with strips on these: numbers, paths, or beginnings of identities
    #[arg(value_name = "DRIVE")]
    drives: Vec<String>,

    /// Compute parity for everything, and not for a sixteenth
    #[arg(long)]
    deep: bool,

    /// End the scrub that runs
    #[arg(long, conflicts_with_all = ["drives", "deep", "show", "wait"])]
    stop: bool,

    /// Show how far it is, or how the last one ended, and begin none
    #[arg(long, conflicts_with_all = ["drives", "deep"])]
    show: bool,

    #[command(flatten)]
    wait: WaitFlag,

    #[command(flatten)]
    format: Format,
}

impl DriveScrub {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let path = "/v1/scrub";
        let mut answer = if self.show {
            client.get::<ScrubStatus>(path)?
        } else if self.stop {
            client.send::<ScrubStatus>(Method::DELETE, path, &serde_json::json!({}))?
        } else {
            let drives = self.drives.iter().map(|name| number_of(client, name));
            let drives = drives.map(|number| number.map(|it| it.to_string()));
            let what = StartScrub { drives: drives.collect::<Result<_>>()?, deep: self.deep };
            client.send::<ScrubStatus>(Method::POST, path, &what)?
        };
        if self.wait.is_set() {
            answer = self.wait.scrub(client)?;
        }
        let state = answer.value.state;
        let text = answer.print(self.format.json, |status| describe(&status));
        if !self.wait.is_set() || matches!(state, ScrubState::Clean | ScrubState::Idle) {
            return Ok(text);
        }
        crate::output::print(&text)?;
        Err(Failure::new(match state {
            ScrubState::Faults => "the scrub found something wrong",
            ScrubState::Stopped => "the scrub was ended early",
            ScrubState::Incomplete | ScrubState::Running | ScrubState::Clean | ScrubState::Idle => {
                "the scrub could not look at everything"
            }
        })
        .hint("`varve health` says what that means"))
    }
}

fn describe(status: &ScrubStatus) -> String {
    let mut facts = vec![("scrub", status.state.word().to_owned())];
    if status.state != ScrubState::Idle {
        let drives =
            if status.drives.is_empty() { "all".to_owned() } else { numbers(&status.drives) };
        facts.extend([("drives", drives), ("deep", table::on_off(status.deep).to_owned())]);
    }
    if status.since_unix_ms > 0 {
        facts.extend([
            ("since", age::since(status.since_unix_ms)),
            ("segments", status.segments.to_string()),
            ("read", ByteCount(status.bytes).to_string()),
            ("wrong strips", status.strips_bad.to_string()),
        ]);
    }
    let of_drive = |it: &DriveFaultCount| format!("{} on drive {}", it.faults, it.drive);
    let faults: Vec<String> = status.faults.iter().map(of_drive).collect();
    if !faults.is_empty() {
        facts.push(("faults", faults.join(", ")));
    }
    table::labelled(&facts)
}
