//! The habits that a program can check, one file a check. A finding names a file, where possible a line, and what to
//! do.

mod ceilings;
mod changes;
mod commands;
mod determinism;
mod documents;
mod edges;
mod file_sizes;
mod hazards;
mod markers;
mod module_docs;
mod names;
mod ratchets;
mod source;
mod tree;
mod unsafe_code;
mod wording;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use crate::step::root;

use self::tree::{Tree, changed};

/// What to do besides the checks.
#[derive(Args, Default)]
pub(crate) struct TidyOptions {
    /// Only count what may only get less, and list every place
    #[arg(long)]
    ratchets: bool,
    /// As JSON
    #[arg(long, requires = "ratchets")]
    json: bool,
    /// Lower the figures of xtask/ratchets.txt to what is counted
    #[arg(long)]
    bless: bool,
}

/// Runs every check and prints what it found; whether that is nothing.
pub(crate) fn tidy(options: &TidyOptions) -> Result<bool> {
    let root = root();
    let mut tree = Tree::load(&root)?;
    let mut outcomes = ratchets::run(&root, &tree)?;
    if options.bless && ratchets::bless(&root, &outcomes)? {
        tree = Tree::load(&root)?;
        outcomes = ratchets::run(&root, &tree)?;
    }
    let mut findings = ratchets::findings(&tree, &outcomes, &changed(&root));
    if options.ratchets {
        if options.json {
            println!("{:#}", ratchets::json(&outcomes));
        } else {
            println!("{}", ratchets::places(&outcomes));
        }
        return Ok(findings.is_empty());
    }
    findings.extend(edges::check(&tree, &metadata()?)?);
    for check in [
        names::check,
        module_docs::check,
        ceilings::check,
        changes::check,
        unsafe_code::check,
        determinism::check,
        markers::check,
        file_sizes::check,
        commands::check,
        hazards::check,
        documents::check,
        wording::check,
    ] {
        findings.extend(check(&tree));
    }
    for finding in &findings {
        println!("{finding}");
    }
    println!("{}", ratchets::table(&outcomes));
    println!("tidy: {} files, {} findings", tree.files.len(), findings.len());
    Ok(findings.is_empty())
}

/// `cargo metadata` of the workspace alone.
pub(crate) fn metadata() -> Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .context("run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("read cargo metadata")
}

/// What a check that looks at files only finds in these.
#[cfg(test)]
fn findings_of(check: fn(&Tree) -> Vec<tree::Finding>, files: &[(&str, &str)]) -> Vec<String> {
    check(&Tree::of(files)).iter().map(ToString::to_string).collect()
}
