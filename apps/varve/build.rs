//! Gives `varve --version` of a release build the commit, where git or `VARVE_COMMIT` tells it. Other builds have none:
//! each commit would have them built anew.

use std::path::Path;
use std::process::Command;

/// Changes with each commit and check-out.
const HEAD_LOG: &str = "../../.git/logs/HEAD";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=VARVE_COMMIT");
    let given = std::env::var("VARVE_COMMIT").ok();
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // A file that is not there would have everything built anew each time.
    if is_release && Path::new(HEAD_LOG).exists() {
        println!("cargo::rerun-if-changed={HEAD_LOG}");
    }
    let commit = given.or_else(|| if is_release { commit() } else { None });
    let shown = commit.filter(|commit| !commit.is_empty()).map(|commit| format!(" ({commit})"));
    println!("cargo::rustc-env=VARVE_COMMIT={}", shown.unwrap_or_default());
}

/// The commit that is checked out; `None` without git.
fn commit() -> Option<String> {
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    git.status.success().then(|| String::from_utf8_lossy(&git.stdout).trim().to_owned())
}
