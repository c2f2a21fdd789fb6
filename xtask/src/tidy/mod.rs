//! The habits that a program can check, one file a check. A finding names a file, where possible a line, and what to do.

mod ceilings;
mod commands;
mod determinism;
mod edges;
mod file_sizes;
mod hazards;
mod markers;
mod module_docs;
mod names;
mod source;
mod tree;
mod unsafe_code;
mod wording;

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::step::root;

use self::tree::Tree;

/// Runs every check and prints what it found; whether that is nothing.
pub(crate) fn tidy() -> Result<bool> {
    let tree = Tree::load(&root())?;
    let mut findings = edges::check(&tree, &metadata()?)?;
    for check in [
        names::check,
        module_docs::check,
        ceilings::check,
        unsafe_code::check,
        determinism::check,
        markers::check,
        file_sizes::check,
        commands::check,
        hazards::check,
        wording::check,
    ] {
        findings.extend(check(&tree));
    }
    for finding in &findings {
        println!("{finding}");
    }
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
