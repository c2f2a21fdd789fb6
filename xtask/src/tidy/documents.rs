//! The map of the code stays short enough to be read, and the index of documents lists all of them.

use std::collections::HashSet;

use crate::tidy::tree::{Finding, Tree};

const MAP: &str = "ARCHITECTURE.md";
const MAP_WORDS_MAX: usize = 2_500;

const DOCUMENTS: &str = "docs/";
const INDEX: &str = "docs/README.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    long_map(tree).into_iter().chain(unlisted(tree)).collect()
}

fn long_map(tree: &Tree) -> Option<Finding> {
    let words = tree.file(MAP)?.text.split_whitespace().count();
    (words > MAP_WORDS_MAX).then(|| {
        let what = format!(
            "{words} words are more than {MAP_WORDS_MAX}: move details to a page of docs/internals"
        );
        Finding::file(MAP, what)
    })
}

/// Files that the index does not link; all of them where there is no index.
fn unlisted(tree: &Tree) -> Vec<Finding> {
    let index = tree.file(INDEX).map_or("", |file| file.text.as_str());
    let listed: HashSet<&str> = link_targets(index).collect();
    let documents = tree.files.iter().filter(|file| file.path != INDEX);
    documents
        .filter(|file| file.path.strip_prefix(DOCUMENTS).is_some_and(|name| !listed.contains(name)))
        .map(|file| Finding::file(&file.path, "link it from docs/README.md, with a sentence"))
        .collect()
}

/// Where the links of a page lead, without the heading.
fn link_targets(page: &str) -> impl Iterator<Item = &str> {
    page.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        target.split('#').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn a_long_map_is_found() {
        let words = "word\n".repeat(MAP_WORDS_MAX);
        assert!(findings_of(check, &[(MAP, &words)]).is_empty());
        let found = findings_of(check, &[(MAP, &format!("{words}| one"))]);
        let expected = "ARCHITECTURE.md: 2502 words are more than 2500: move details to a page of docs/internals";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn documents_that_the_index_does_not_link_are_found() {
        let files = [
            (
                INDEX,
                "[a](a.md), [part of b](rfcs/b.md#part) and `c.md`; [more](../README.md)\n[d](d.md\n",
            ),
            ("docs/a.md", ""),
            ("docs/rfcs/b.md", ""),
            ("docs/c.md", ""),
            ("docs/d.md", ""),
            ("docs/internals/a.md", ""),
            ("README.md", ""),
        ];
        let found = findings_of(check, &files);
        let expected = ["docs/c.md", "docs/d.md", "docs/internals/a.md"]
            .map(|path| format!("{path}: link it from docs/README.md, with a sentence"));
        assert_eq!(found, expected);
    }

    #[test]
    fn without_an_index_nothing_is_listed() {
        assert_eq!(findings_of(check, &[("docs/a.md", "")]).len(), 1);
    }
}
