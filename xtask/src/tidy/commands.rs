//! A subcommand is a file, a test and a page: each of the three names the other two.

use crate::tidy::tree::{Finding, Tree};

const FILES: &str = "apps/varve/src/commands/";
const TESTS: &str = "apps/varve/tests/cli/";
const PAGES: &str = "docs/operating/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(name) = command(&file.path) else { continue };
        let test = format!("{TESTS}{}.rs", name.replace('/', "_"));
        let page = format!("{PAGES}{}.md", name.replace(['/', '_'], "-"));
        for missing in [test, page] {
            if tree.file(&missing).is_none() {
                let what = format!("the command lacks {missing}");
                findings.push(Finding::file(&file.path, what));
            }
        }
    }
    findings
}

/// `volume/create` for the file of `varve volume create`; modules that only group commands are none.
fn command(path: &str) -> Option<&str> {
    let name = path.strip_prefix(FILES)?.strip_suffix(".rs")?;
    let part_of_a_command = name.matches('/').count() > 1;
    (!name.ends_with("mod") && !part_of_a_command).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn a_command_without_test_or_page_is_found() {
        let files = [
            ("apps/varve/src/commands/mod.rs", ""),
            ("apps/varve/src/commands/volume/mod.rs", ""),
            ("apps/varve/src/commands/volume/create.rs", ""),
            ("apps/varve/src/commands/volume/two_words.rs", ""),
            ("apps/varve/tests/cli/volume_two_words.rs", ""),
            ("docs/operating/volume-two-words.md", ""),
            ("apps/varve/src/commands/status.rs", ""),
            ("apps/varve/tests/cli/status.rs", ""),
            ("docs/operating/status.md", ""),
            ("docs/operating/volume-create.md", ""),
        ];
        let found = findings_of(check, &files);
        let expected = "apps/varve/src/commands/volume/create.rs: the command lacks apps/varve/tests/cli/volume_create.rs";
        assert_eq!(found, [expected]);
    }
}
