//! Numbered invariants: each id is defined once in the workspace, is cited, and every citation has one definition.
//!
//! A definition is a line `//! DRAIN-2. …` of a file's documentation. A citation names the id in another comment:
//! `// DRAIN-2`, or `(DRAIN-2, SPACE-1)` in a sentence; documents in Markdown cite too. What cites an id there does not
//! show that code keeps it. Ids of a letter and a number such as `D2` are older. Unless it stands in its own file, such
//! a citation means the one file of the crate that defines it, or the one of the workspace where the crate has none.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;
use crate::tidy::source::Comment;
use crate::tidy::tree::SourceFile;

/// Definitions whose id is defined elsewhere as well.
pub(crate) fn defined_twice(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let invariants = Invariants::read(sources);
    let mut found = Vec::new();
    for (id, definitions) in invariants.definitions.iter().filter(|(_, places)| places.len() > 1) {
        for definition in definitions {
            let what = format!("{id} is defined in {} places", definitions.len());
            found.push(definition.place(what));
        }
    }
    found
}

/// Definitions that nothing cites.
pub(crate) fn uncited(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let invariants = Invariants::read(sources);
    let mut cited = BTreeSet::new();
    for citation in invariants.citations.iter().filter(|citation| citation.file.is_rust()) {
        if let CitedDefinition::One(definition) = invariants.meaning(citation) {
            cited.insert((&citation.id, definition.line, &definition.file.path));
        }
    }
    let mut found = Vec::new();
    for (id, definitions) in &invariants.definitions {
        for definition in definitions {
            if !cited.contains(&(id, definition.line, &definition.file.path)) {
                found.push(definition.place(format!("no comment cites {id}")));
            }
        }
    }
    found
}

/// Citations that fit several definitions.
pub(crate) fn ambiguous(sources: &Sources<'_>) -> Vec<CountedPlace> {
    Invariants::read(sources).citations_that(|meaning| match meaning {
        CitedDefinition::Several(number) => Some(format!("fits {number} definitions")),
        CitedDefinition::One(_) | CitedDefinition::Nothing => None,
    })
}

/// Citations without a definition.
pub(crate) fn undefined(sources: &Sources<'_>) -> Vec<CountedPlace> {
    Invariants::read(sources).citations_that(|meaning| match meaning {
        CitedDefinition::Nothing => Some("is defined nowhere".to_owned()),
        CitedDefinition::One(_) | CitedDefinition::Several(_) => None,
    })
}

/// All ids of the workspace.
struct Invariants<'a> {
    definitions: BTreeMap<String, Vec<Definition<'a>>>,
    citations: Vec<Citation<'a>>,
}

struct Definition<'a> {
    file: &'a SourceFile,
    line: usize,
}

struct Citation<'a> {
    file: &'a SourceFile,
    line: usize,
    id: String,
}

/// What a citation stands for.
enum CitedDefinition<'a> {
    One(&'a Definition<'a>),
    Several(usize),
    Nothing,
}

impl Definition<'_> {
    fn place(&self, what: String) -> CountedPlace {
        CountedPlace::line(&self.file.path, self.line, what)
    }
}

impl<'a> Invariants<'a> {
    fn read(sources: &Sources<'a>) -> Self {
        let mut definitions: BTreeMap<String, Vec<Definition<'a>>> = BTreeMap::new();
        let all = || {
            let files = sources.comments.iter();
            files.flat_map(|(file, comments)| comments.iter().map(|comment| (*file, comment)))
        };
        for (file, comment) in all() {
            if let Some(id) = definition(file, comment) {
                let definition = Definition { file, line: comment.line };
                definitions.entry(id.to_owned()).or_default().push(definition);
            }
        }
        let families: BTreeSet<&str> = definitions.keys().filter_map(|id| family(id)).collect();
        let mut citations = Vec::new();
        for (file, comment) in all() {
            let own = usize::from(definition(file, comment).is_some());
            for id in cited(comment.text, &families).into_iter().skip(own) {
                citations.push(Citation { file, line: comment.line, id: id.to_owned() });
            }
        }
        citations.extend(cited_in_documents(sources, &families));
        Self { definitions, citations }
    }

    fn meaning(&self, citation: &Citation<'_>) -> CitedDefinition<'_> {
        let Some(all) = self.definitions.get(&citation.id) else { return CitedDefinition::Nothing };
        let of_file = |definition: &&Definition<'_>| definition.file.path == citation.file.path;
        let of_crate = |definition: &&Definition<'_>| {
            definition.file.crate_name() == citation.file.crate_name()
        };
        let mut near: Vec<&Definition<'_>> = all.iter().filter(of_file).collect();
        if near.is_empty() {
            near = all.iter().filter(of_crate).collect();
        }
        if near.is_empty() {
            near = all.iter().collect();
        }
        match near[..] {
            [definition] => CitedDefinition::One(definition),
            _ => CitedDefinition::Several(near.len()),
        }
    }

    fn citations_that(
        &self,
        what: impl Fn(CitedDefinition<'_>) -> Option<String>,
    ) -> Vec<CountedPlace> {
        let citations = self.citations.iter().filter_map(|citation| {
            let what = what(self.meaning(citation))?;
            Some(CountedPlace::line(
                &citation.file.path,
                citation.line,
                format!("{} {what}", citation.id),
            ))
        });
        citations.collect()
    }
}

/// What documents in Markdown cite: ids of modules only, as a letter and a number have other meanings there.
fn cited_in_documents<'a>(sources: &Sources<'a>, families: &BTreeSet<&str>) -> Vec<Citation<'a>> {
    let mut citations = Vec::new();
    for file in sources.tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        for (index, line) in file.text.lines().enumerate() {
            let ids = cited(line, families).into_iter().filter(|id| family(id).is_some());
            let of_line = |id: &str| Citation { file, line: index + 1, id: id.to_owned() };
            citations.extend(ids.map(of_line));
        }
    }
    citations
}

/// The id that a line of a file's documentation defines.
fn definition<'a>(file: &SourceFile, comment: &Comment<'a>) -> Option<&'a str> {
    let text = comment.text.strip_prefix("//!").filter(|_| !file.is_test())?.trim_start();
    let end = text.find(['.', ':'])?;
    let (id, behind) = text.split_at(end);
    let is_defined = is_short(id) || family(id).is_some();
    (is_defined && behind[1..].starts_with(' ')).then_some(id)
}

/// The ids that a comment names; that of a definition too, as the first.
fn cited<'a>(comment: &'a str, families: &BTreeSet<&str>) -> Vec<&'a str> {
    let text = comment.trim_start_matches(['/', '!']);
    let mut found = Vec::new();
    let mut end_of_last: Option<usize> = None;
    for (at, word) in words(text) {
        let end = at + word.len();
        let between = end_of_last.and_then(|last| text.get(last..at));
        let is_cited = match family(word) {
            Some(family) => families.contains(family),
            None => is_short(word) && is_citation(&text[..at], &text[end..], between),
        };
        if is_cited {
            found.push(word);
            end_of_last = Some(end);
        }
    }
    found
}

/// Whether a letter and a number are a citation between what stands before and behind them, `S3` and others being words
/// as well: first in the comment or in brackets, as one of several, or as one of a file that is named. `between` stands
/// behind the citation before.
fn is_citation(before: &str, behind: &str, between: Option<&str>) -> bool {
    let (before, behind) = (before.trim_end(), behind.trim_start());
    let is_first = before.is_empty() && (behind.is_empty() || behind.starts_with(['.', ':', ',']));
    let is_next =
        between.is_some_and(|between| [",", "and", "or", "to", "–"].contains(&between.trim()));
    is_first || is_next || before.ends_with('(') || behind.starts_with("of `")
}

/// The words of a text that may be ids, with where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
        let begin = rest + text[rest..].find(is_part)?;
        let end = text[begin..]
            .find(|letter| !is_part(letter))
            .map_or(text.len(), |length| begin + length);
        rest = end;
        Some((begin, &text[begin..end]))
    })
}

/// Whether a word is a letter and a number of one or two digits.
fn is_short(word: &str) -> bool {
    let number = word.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    number.is_some_and(|number| (1..=2).contains(&number.len()) && is_number(number))
}

/// `DRAIN` of `DRAIN-2`.
fn family(word: &str) -> Option<&str> {
    let (family, number) = word.rsplit_once('-')?;
    let is_family = family.len() > 1
        && family.chars().all(|letter| letter.is_ascii_uppercase() || letter == '-');
    (is_family && is_number(number)).then_some(family)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    const DRAIN: &str =
        "//! Drains.\n//!\n//! D1. Durable records only.\n//! D2: In order (D1).\n//! LANE-1. X.\n";

    #[test]
    fn citations_are_told_from_other_words() {
        let families = BTreeSet::from(["DRAIN", "LANE-END"]);
        let cited = |text| cited(text, &families);
        assert_eq!(cited("// D1"), ["D1"]);
        assert_eq!(cited("// D1, D2. Because."), ["D1", "D2"]);
        assert_eq!(
            cited("/// Waits (D1, W2 and X12), as D6 of `drain.rs` says"),
            ["D1", "W2", "X12", "D6"]
        );
        assert_eq!(cited("// DRAIN-2: held by LANE-END-10"), ["DRAIN-2", "LANE-END-10"]);
        for text in [
            "/// Users of S3",
            "// S3 answers so",
            "// SHA-256, UTF-8",
            "// (X123, H264a)",
            "// P1x",
        ] {
            assert!(cited(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn ids_that_several_files_define_are_counted_at_each() {
        let files = [
            ("crates/a/src/drain.rs", DRAIN),
            ("crates/b/src/deaths.rs", "//! D1. Dead.\n"),
            ("crates/b/tests/d.rs", "//! D1. Not a definition.\n"),
        ];
        let expected = [
            "crates/a/src/drain.rs:3: D1 is defined in 2 places",
            "crates/b/src/deaths.rs:1: D1 is defined in 2 places",
        ];
        assert_eq!(places_in(defined_twice, &files), expected);
    }

    #[test]
    fn a_citation_means_its_file_then_its_crate_then_the_only_one() {
        let files = [
            ("crates/a/src/drain.rs", DRAIN),
            ("crates/a/src/deaths.rs", "//! D1. Dead.\nfn f() {} // D1\n"),
            ("crates/a/src/apply.rs", "// D2\n// D1\n// D9\n// On S3, and LANE-1 or LANE-2\n"),
            ("crates/b/src/x.rs", "//! P1. Of one file.\n// D2\n"),
            ("crates/c/src/y.rs", "//! P1. Of another.\n"),
            ("crates/d/src/z.rs", "// P1\n"),
        ];
        let expected = [
            "crates/a/src/apply.rs:2: D1 fits 2 definitions",
            "crates/d/src/z.rs:1: P1 fits 2 definitions",
        ];
        assert_eq!(places_in(ambiguous, &files), expected);
        let expected = [
            "crates/a/src/apply.rs:3: D9 is defined nowhere",
            "crates/a/src/apply.rs:4: LANE-2 is defined nowhere",
        ];
        assert_eq!(places_in(undefined, &files), expected);
        let expected = [
            "crates/b/src/x.rs:1: no comment cites P1",
            "crates/c/src/y.rs:1: no comment cites P1",
        ];
        assert_eq!(places_in(uncited, &files), expected);
    }

    #[test]
    fn documents_cite_ids_of_modules_and_do_not_show_that_code_keeps_them() {
        let files = [
            ("crates/a/src/drain.rs", "//! DRAIN-1. In order.\n"),
            ("docs/durability.md", "By DRAIN-1,\n(SHA-256, DRAIN-2, D7) or P1.\n"),
        ];
        assert_eq!(
            places_in(undefined, &files),
            ["docs/durability.md:2: DRAIN-2 is defined nowhere"]
        );
        assert_eq!(
            places_in(uncited, &files),
            ["crates/a/src/drain.rs:1: no comment cites DRAIN-1"]
        );
    }
}
