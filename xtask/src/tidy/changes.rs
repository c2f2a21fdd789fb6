//! A change that users notice says which area it is about, so that `cargo xtask changelog` finds a place for it.

use crate::changelog;
use crate::tidy::tree::{Finding, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let changes = tree.files.iter().filter(|file| file.path.starts_with("changes/"));
    let astray = changes.filter(|file| changelog::parse(&file.text).is_none());
    astray.map(|file| Finding::line(&file.path, 1, changelog::first_line())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn changes_without_an_area_are_found() {
        let files = [
            ("changes/a.md", "Area: nbd\n\n**A.** b\n"),
            ("changes/b.md", "**A.** b\n"),
            ("docs/c.md", "c\n"),
        ];
        let found = findings_of(check, &files);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("changes/b.md:1: begin with `Area: ` and one of"),
            "{found:?}"
        );
    }
}
