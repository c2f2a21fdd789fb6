//! A change that users notice says which area it is about, and `CHANGELOG.md` has it there.

use crate::changelog;
use crate::tidy::tree::{Finding, SourceFile, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut changes: Vec<_> =
        tree.files.iter().filter(|file| file.path.starts_with("changes/")).collect();
    changes.sort_by_key(|file| &file.path);
    let astray = changes.iter().filter(|file| changelog::parse(&file.text).is_none());
    let mut findings: Vec<Finding> =
        astray.map(|file| Finding::line(&file.path, 1, changelog::first_line())).collect();
    let texts = changes.iter().map(|file| file.text.as_str());
    let is_stale = |file: &SourceFile| changelog::changelog(texts, &file.text) != file.text;
    if tree.file(changelog::FILE).is_some_and(is_stale) {
        let what = "is stale: `cargo xtask changelog --write` writes it";
        findings.push(Finding::file(changelog::FILE, what));
    }
    findings
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

    #[test]
    fn a_stale_changelog_is_found() {
        let change = "Area: nbd\n\n**A.** b\n";
        let whole = changelog::changelog([change].into_iter(), "");
        let found =
            |text: &str| findings_of(check, &[("changes/a.md", change), (changelog::FILE, text)]);
        assert!(found(&whole).is_empty());
        let stale = whole.replace("**A.**", "**B.**");
        assert_eq!(
            found(&stale),
            ["CHANGELOG.md: is stale: `cargo xtask changelog --write` writes it"]
        );
    }
}
