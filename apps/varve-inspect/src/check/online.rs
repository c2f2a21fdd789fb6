//! Check of a pool that a daemon serves: asks the daemon for it, shows how far it is, and ends it on Ctrl-C.

use std::time::Duration;

use hyper::Method;
use varve_access_admin::v1::{CheckReport, CheckState, CheckStatus};
use varve_client::{ApiAnswer, Client, Failure, Progress, Result};
use varve_types::ByteCount;

use crate::check::counted;

const PATH: &str = "/v1/check";

/// Pauses between looks at how far it is, in ms: the first one is short, for small pools.
const LOOK_MS_FIRST: u64 = 20;
const LOOK_MS_LAST: u64 = 500;

/// Begins a check, or joins the one that runs, and waits for its end.
pub fn check(client: &Client) -> Result<ApiAnswer<CheckStatus>> {
    let watch = Progress::open_ended();
    let mut answer = client.send::<CheckStatus>(Method::POST, PATH, &())?;
    let (mut pause_ms, mut told) = (LOOK_MS_FIRST, false);
    while answer.value.state == CheckState::Running {
        if watch.is_stopped() && !told {
            client.send::<CheckStatus>(Method::DELETE, PATH, &())?;
            told = true;
        }
        watch.say(format!("{} references followed", answer.value.references));
        std::thread::sleep(Duration::from_millis(pause_ms));
        pause_ms = (pause_ms * 2).min(LOOK_MS_LAST);
        answer = client.get::<CheckStatus>(PATH)?;
    }
    watch.end();
    Ok(answer)
}

/// The findings, a line each, and a summary.
pub fn describe(report: &CheckReport) -> String {
    let mut text: String =
        report.findings.iter().map(|finding| format!("error: {finding}\n")).collect();
    for what in &report.not_checked {
        text += &format!("not checked: {what}\n");
    }
    if report.leaked > 0 {
        text += &format!(
            "error: {} were given back and are still there\n",
            counted(report.leaked, "chunk")
        );
    }
    let (datasets, references) =
        (counted(report.datasets, "dataset"), counted(report.references, "reference"));
    let (unnamed, bytes) = (counted(report.unnamed, "chunk"), ByteCount(report.unnamed_bytes));
    text += &format!("{datasets}, {references} followed: {}\n", counted(report.errors(), "error"));
    text += &format!("{unnamed} of {bytes} that nothing named any more given back\n");
    text
}

/// How the command ends: as the check of a stopped pool does.
pub fn judge(status: &CheckStatus) -> Result<()> {
    let errors = status.report.as_ref().map_or(0, CheckReport::errors);
    if errors > 0 {
        return Err(Failure::new(format!("the pool has {}", counted(errors, "error"))).hint(
            "write these blocks again or restore them from a copy; `varve check` of the stopped pool shows more",
        ));
    }
    let is_whole = status.report.as_ref().is_none_or(|report| report.not_checked.is_empty());
    match status.state {
        CheckState::Done if !is_whole => {
            Err(Failure::misuse("not everything was checked")
                .hint("check again once all shards serve"))
        }
        CheckState::Done => Ok(()),
        CheckState::Stopped => Err(Failure::misuse("stopped before everything was checked")),
        CheckState::Idle | CheckState::Running | CheckState::Failed => {
            let why = status.error.as_deref().unwrap_or("the daemon was started anew");
            Err(Failure::misuse(format!("not checked: {why}")).hint("check again"))
        }
    }
}
