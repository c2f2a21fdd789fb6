//! Goal: `varve serve` refuses what it cannot serve before it touches anything. Method: wrong files, flags and directories.

use std::fs;

use crate::rig::{varve, varve_in};

#[test]
fn a_wrong_configuration_is_refused_where_it_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("c.toml"), "shards = 1\n[memory]\nbudget = \"1KiB\"\n").unwrap();
    let said = varve_in(dir.path(), &["serve", "--config", "c.toml"]).refused(2);
    assert!(
        said.starts_with("error: c.toml:3:10: `memory.budget`: 1 KiB is out of range"),
        "{said}"
    );
    assert!(said.contains("from \"128 MiB\" to \"1 TiB\""), "{said}");
    assert!(!dir.path().join("varve-data").exists(), "nothing is made before the file is valid");
}

#[test]
fn a_configuration_in_the_data_directory_is_found() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("varve.toml"), "colour = 1\n").unwrap();
    let data = dir.path().to_str().unwrap();
    let said = varve(&["serve", "--data", data]).refused(2);
    assert!(said.contains("varve.toml:1:1: `colour` is not a setting"), "{said}");
}

#[test]
fn a_missing_configuration_file_is_refused() {
    let said = varve(&["serve", "--config", "/nonexistent/x.toml"]).refused(2);
    assert!(said.contains("read configuration /nonexistent/x.toml"), "{said}");
}

#[test]
fn flags_out_of_range_are_misuse() {
    assert!(varve(&["serve", "--shards", "257"]).refused(2).contains("257"));
    assert!(varve(&["serve", "--nbd", "example.org:1"]).refused(2).contains("neither"));
    assert!(varve(&["serve", "--drive", "x=1GB"]).refused(2).contains("unknown unit"));
    assert!(varve(&["serve", "--addr", "unix:x"]).refused(2).contains("`serve` is the daemon"));
    let said = varve(&["serve", "--nbd", "0.0.0.0:10809"]).refused(2);
    assert!(said.contains("open to other machines"), "{said}");
}

#[test]
fn settings_are_listed_without_serving() {
    let text = varve(&["serve", "--settings"]).ok();
    assert!(text.contains("### `memory.budget`"), "{text}");
}
