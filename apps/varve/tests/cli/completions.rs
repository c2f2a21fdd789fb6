//! Goal: shells learn every command. Method: the scripts name the commands, and bash accepts its own.

use std::process::Command;

use crate::rig::varve;

#[test]
fn scripts_name_every_noun() {
    for shell in ["bash", "zsh", "fish"] {
        let script = varve(&["completions", shell]).ok();
        for noun in ["serve", "volume", "bucket", "user", "pool", "status"] {
            assert!(script.contains(noun), "{shell} lacks {noun}");
        }
    }
}

#[test]
fn words_of_options_are_offered() {
    let script = varve(&["completions", "bash"]).ok();
    for words in ["off lz4 zstd", "full none", "auto on off"] {
        assert!(script.contains(&format!("compgen -W \"{words}\"")), "{words}");
    }
}

#[test]
fn bash_accepts_its_script() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("varve.bash");
    std::fs::write(&path, varve(&["completions", "bash"]).ok()).unwrap();
    let status = Command::new("bash").arg("-n").arg(&path).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_unknown_shell_is_misuse() {
    assert!(varve(&["completions", "command.com"]).refused(2).contains("possible values"));
}
