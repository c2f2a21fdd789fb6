//! What is counted and what to do about it, and the judgement of a count against its line of the list.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::tidy::ratchets::commits::{self, Commit};
use crate::tidy::ratchets::figures::{FigureLine, FigureList, LIST, lowered};
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;
use crate::tidy::ratchets::{
    comment_columns, invariants, module_cycles, open_fields, participle_types,
    past_tense_functions, reused_type_names, tuple_parameters,
};
use crate::tidy::tree::{Finding, Tree};

/// One thing that is counted.
struct Ratchet {
    name: &'static str,
    count: fn(&Sources<'_>) -> Vec<CountedPlace>,
    measure: Measure,
    /// What to do about a place.
    fix: &'static str,
}

/// What of the places the figure is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// How many there are.
    Number,
    /// The size of the largest.
    Largest,
}

const RATCHETS: [Ratchet; 12] = [
    Ratchet {
        name: "participle-types",
        count: participle_types::count,
        measure: Measure::Number,
        fix: "name the type by a noun",
    },
    Ratchet {
        name: "reused-type-names",
        count: reused_type_names::count,
        measure: Measure::Number,
        fix: "name the type by two words, such as `BlockPlace`",
    },
    Ratchet {
        name: "past-tense-functions",
        count: past_tense_functions::count,
        measure: Measure::Number,
        fix: "name the function by a verb that says what it does, such as `encode` or `request`",
    },
    Ratchet {
        name: "tuple-parameters",
        count: tuple_parameters::count,
        measure: Measure::Number,
        fix: "pass parameters one by one, or a struct whose fields have names",
    },
    Ratchet {
        name: "open-fields",
        count: open_fields::count,
        measure: Measure::Largest,
        fix: "make fields private, and move what changes them to the struct or to a part of it",
    },
    Ratchet {
        name: "module-cycles",
        count: module_cycles::count,
        measure: Measure::Largest,
        fix: "move what both sides need below both, or hand it in",
    },
    Ratchet {
        name: "invariants-defined-twice",
        count: invariants::defined_twice,
        measure: Measure::Number,
        fix: "give it an id by its module, such as `DRAIN-2`",
    },
    Ratchet {
        name: "invariants-ambiguous",
        count: invariants::ambiguous,
        measure: Measure::Number,
        fix: "give the invariant an id by its module, such as `DRAIN-2`, and cite that",
    },
    Ratchet {
        name: "invariants-undefined",
        count: invariants::undefined,
        measure: Measure::Number,
        fix: "define it in the `//!` of the file that upholds it, or take the citation out",
    },
    Ratchet {
        name: "invariants-uncited",
        count: invariants::uncited,
        measure: Measure::Number,
        fix: "cite it in a comment where code relies on it",
    },
    Ratchet {
        name: "comment-columns",
        count: comment_columns::count,
        measure: Measure::Number,
        fix: "wrap the comment at 120 columns",
    },
    Ratchet {
        name: COMMITS,
        count: commits::count,
        measure: Measure::Number,
        fix: "reword it: `layer: imperative` of at most 65 characters, and a body that says why",
    },
];

const COMMITS: &str = "commit-messages";

/// What one ratchet counted.
pub(crate) struct RatchetOutcome {
    pub(crate) name: &'static str,
    pub(crate) fix: &'static str,
    /// Its line of the list, if it has one.
    pub(crate) row: Option<FigureLine>,
    /// None where there was nothing to count in.
    pub(crate) counted: Option<usize>,
    /// Where, largest first, without those that are no larger than the goal.
    pub(crate) places: Vec<CountedPlace>,
}

/// Counts everything, in a fixed order.
pub(crate) fn run(root: &Path, tree: &Tree) -> Result<Vec<RatchetOutcome>> {
    let figures = FigureList::parse(tree.file(LIST).map_or("", |file| &file.text));
    let commits = figures.since.as_ref().and_then(|since| Commit::read(root, since));
    let sources = Sources::parse(tree, commits)?;
    Ok(RATCHETS.iter().map(|ratchet| ratchet.judge(&sources, &figures)).collect())
}

impl Ratchet {
    fn judge(&self, sources: &Sources<'_>, figures: &FigureList) -> RatchetOutcome {
        let row = figures.rows.get(self.name).copied();
        let mut places = (self.count)(sources);
        places.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| one.cmp(other)));
        let counted = match self.measure {
            Measure::Number => places.len(),
            Measure::Largest => places.first().map_or(0, |largest| largest.size),
        };
        if self.measure == Measure::Largest {
            places.retain(|place| row.is_none_or(|row| place.size > row.goal));
        }
        let is_left_out = self.name == COMMITS && sources.commits.is_none();
        let counted = (!is_left_out).then_some(counted);
        RatchetOutcome { name: self.name, fix: self.fix, row, counted, places }
    }
}

/// What is wrong with the figures. Where one grew, the places in `changed` files are shown, or all when none are there.
pub(crate) fn findings(
    tree: &Tree,
    outcomes: &[RatchetOutcome],
    changed: &[String],
) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        outcomes.iter().flat_map(|outcome| outcome.findings(changed)).collect();
    let figures = FigureList::parse(tree.file(LIST).map_or("", |file| &file.text));
    for name in figures.rows.keys() {
        if !RATCHETS.iter().any(|ratchet| ratchet.name == name) {
            findings
                .push(Finding::file(LIST, format!("there is no ratchet {name}: remove its line")));
        }
    }
    findings
}

impl RatchetOutcome {
    fn findings(&self, changed: &[String]) -> Vec<Finding> {
        let Self { name, fix, .. } = self;
        let Some(counted) = self.counted else { return Vec::new() };
        let Some(row) = self.row else {
            return vec![Finding::file(LIST, format!("add `{name} {counted} GOAL`"))];
        };
        let figure = row.figure;
        if row.due(counted) < figure {
            let what = format!(
                "{name} are {counted}, fewer than {figure}: `cargo xtask tidy --bless` lowers the figure"
            );
            return vec![Finding::file(LIST, what)];
        }
        if counted <= figure {
            return Vec::new();
        }
        let what = format!("{name} are {counted}, more than {figure}: {fix}. Look at these:");
        let is_changed = |place: &&CountedPlace| changed.contains(&place.path);
        let mut places: Vec<&CountedPlace> = self.places.iter().filter(is_changed).collect();
        if places.is_empty() {
            places = self.places.iter().collect();
        }
        let mut findings = vec![Finding::file(LIST, what)];
        findings.extend(places.into_iter().map(|place| match place.line {
            Some(line) => Finding::line(&place.path, line, format!("{name}: {}", place.what)),
            None => Finding::file(&place.path, format!("{name}: {}", place.what)),
        }));
        findings
    }
}

/// Lowers the figures of the list to what was counted; whether one was lowered.
pub(crate) fn bless(root: &Path, outcomes: &[RatchetOutcome]) -> Result<bool> {
    let path = root.join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let counted: BTreeMap<&str, usize> =
        outcomes.iter().filter_map(|outcome| Some((outcome.name, outcome.counted?))).collect();
    let lower = lowered(&text, &counted);
    if lower == text {
        return Ok(false);
    }
    fs::write(&path, lower).with_context(|| format!("write {}", path.display()))?;
    Ok(true)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a ratchet `a` counted, with the figure and the goal of its line.
    pub(crate) fn outcome(
        counted: Option<usize>,
        row: Option<(usize, usize)>,
        places: Vec<CountedPlace>,
    ) -> RatchetOutcome {
        let row = row.map(|(figure, goal)| FigureLine { figure, goal });
        RatchetOutcome { name: "a", fix: "mend it", row, counted, places }
    }

    fn found(counted: Option<usize>, row: Option<(usize, usize)>, changed: &[&str]) -> Vec<String> {
        let places = vec![CountedPlace::line("b.rs", 7, "`X`"), CountedPlace::whole("c.rs", "`Y`")];
        let changed: Vec<String> = changed.iter().map(ToString::to_string).collect();
        let findings = outcome(counted, row, places).findings(&changed);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_figure_is_exact_until_its_goal_is_reached() {
        assert!(found(Some(5), Some((5, 2)), &[]).is_empty());
        assert!(found(Some(1), Some((2, 2)), &[]).is_empty());
        assert!(found(None, Some((5, 2)), &[]).is_empty());
        assert!(
            found(Some(4), Some((5, 2)), &[])[0]
                .contains("fewer than 5: `cargo xtask tidy --bless`")
        );
        assert!(found(Some(1), Some((3, 2)), &[])[0].contains("fewer than 3"));
        assert_eq!(found(Some(4), None, &[]), ["xtask/ratchets.txt: add `a 4 GOAL`"]);
    }

    #[test]
    fn what_grew_is_shown_where_something_changed() {
        let head = "xtask/ratchets.txt: a are 6, more than 5: mend it. Look at these:";
        assert_eq!(found(Some(6), Some((5, 2)), &[]), [head, "b.rs:7: a: `X`", "c.rs: a: `Y`"]);
        assert_eq!(found(Some(6), Some((5, 2)), &["c.rs"]), [head, "c.rs: a: `Y`"]);
    }

    #[test]
    fn lines_of_no_ratchet_are_found() {
        let tree = Tree::of(&[(LIST, "# a\nnothing-such 3 0\nopen-fields 3 0\n")]);
        let found: Vec<String> =
            findings(&tree, &[], &[]).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            ["xtask/ratchets.txt: there is no ratchet nothing-such: remove its line"]
        );
    }

    #[test]
    fn the_largest_place_is_the_figure_where_that_is_measured() {
        let text = "struct A {\n    pub(crate) b: u8,\n    pub(crate) c: u8,\n}\nstruct D(pub(crate) u8);\n";
        let tree = Tree::of(&[("crates/a/src/b.rs", text)]);
        let sources = Sources::parse(&tree, None).unwrap();
        let figures = FigureList::parse("open-fields 2 1\n");
        let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == "open-fields").unwrap();
        let outcome = ratchet.judge(&sources, &figures);
        assert_eq!((outcome.counted, outcome.places.len()), (Some(2), 1));
    }

    #[test]
    fn commits_that_cannot_be_read_are_not_counted() {
        let tree = Tree::of(&[]);
        let ratchet = RATCHETS.iter().find(|ratchet| ratchet.name == COMMITS).unwrap();
        let counted = |commits| {
            let sources = Sources::parse(&tree, commits).unwrap();
            ratchet.judge(&sources, &FigureList::default()).counted
        };
        assert_eq!(counted(None), None);
        assert_eq!(counted(Some(vec![])), Some(0));
    }

    #[test]
    fn blessing_lowers_the_list_on_disk() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("xtask")).unwrap();
        fs::write(root.path().join(LIST), "# Why.\na 5 2\n").unwrap();
        assert!(!bless(root.path(), &[outcome(Some(6), None, vec![])]).unwrap());
        assert!(bless(root.path(), &[outcome(Some(4), None, vec![])]).unwrap());
        assert_eq!(fs::read_to_string(root.path().join(LIST)).unwrap(), "# Why.\na 4 2\n");
    }
}
