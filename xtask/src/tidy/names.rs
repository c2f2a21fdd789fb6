//! A file is named by its concept; a name that could stand for anything collects everything.

use crate::tidy::tree::{Finding, Tree};

const BANNED: [&str; 10] = [
    "common.rs",
    "helper.rs",
    "helpers.rs",
    "manager.rs",
    "misc.rs",
    "shared.rs",
    "stuff.rs",
    "tools.rs",
    "util.rs",
    "utils.rs",
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let named = |path: &str| {
        let mut parts = path.rsplit('/');
        let file = parts.next().unwrap_or_default();
        let directory = parts.next().unwrap_or_default();
        BANNED.contains(&file)
            || file == "mod.rs" && BANNED.contains(&format!("{directory}.rs").as_str())
    };
    let files = tree.rust().filter(|file| named(&file.path));
    files.map(|file| Finding::file(&file.path, "name the file by the concept it holds")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn names_for_anything_are_found() {
        let files = [
            ("crates/a/src/utils.rs", ""),
            ("crates/a/src/helpers/mod.rs", ""),
            ("crates/a/src/reclaim.rs", ""),
            ("crates/a/src/helpers.md", ""),
        ];
        let found = findings_of(check, &files);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
