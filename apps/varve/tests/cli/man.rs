//! Goal: each command has a manual page. Method: the pages are written, and hold what the help says.

use std::fs;

use crate::rig::varve;

#[test]
fn each_command_has_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    let said = varve(&["man", pages.to_str().unwrap()]).ok();
    let count = fs::read_dir(&pages).unwrap().count();
    assert!(count > 60 && said.contains(&format!("wrote {count} manual pages")), "{said}");
    let page = fs::read_to_string(pages.join("varve-volume-create.1")).unwrap();
    assert!(page.starts_with(".ie") || page.contains(".TH"), "{page}");
    for part in ["varve volume create", "\\-\\-size", "Examples"] {
        assert!(page.contains(part), "the page lacks {part}: {page}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let text = varve(&["man", "/dev/null/man1"]).refused(1);
    assert!(text.contains("write manual pages to /dev/null/man1"), "{text}");
}
