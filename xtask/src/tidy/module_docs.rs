//! Every file opens with `//!`: what it is, who calls it, and its invariants.

use crate::tidy::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let bare = tree.rust().filter(|file| !file.text.starts_with("//! "));
    bare.map(|file| {
        Finding::line(&file.path, 1, "open the file with `//!`: what it is and who calls it")
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn files_without_a_module_doc_are_found() {
        let files = [("a.rs", "//! What it is.\n"), ("b.rs", "use x;\n//! Late.\n"), ("c.md", "")];
        let found = findings_of(check, &files);
        assert_eq!(found, ["b.rs:1: open the file with `//!`: what it is and who calls it"]);
    }
}
