//! Tests that `docs/hazards.md` names are there.

use std::collections::HashSet;

use crate::tidy::tree::{Finding, Tree};

const PAGE: &str = "docs/hazards.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.map(str::to_owned).collect()
    };
    // Names of functions, and those that a macro makes tests of: `name: Bug;`.
    let mut tests = HashSet::new();
    for line in tree.rust().flat_map(|file| file.text.lines()).map(str::trim) {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let name = match line.strip_prefix("fn ") {
            Some(rest) => words(rest).into_iter().next(),
            None => line
                .strip_suffix(';')
                .and_then(|line| line.split_once(": "))
                .map(|parts| parts.0.to_owned()),
        };
        tests.extend(name);
    }
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        let Some(cell) = line.strip_suffix(" |").and_then(|line| line.rsplit_once(" | ")) else {
            continue;
        };
        for name in cell.1.split('`').skip(1).step_by(2).filter(|name| name.contains('_')) {
            if !tests.contains(name) {
                findings.push(Finding::line(PAGE, index + 1, format!("there is no test {name}")));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let page = "| hazard | guard | test |\n|---|---|---|\n| h | G1 of `some_file` | `one_test`, `two_tests`, and `seeds` |\n| h | g | `no_test` |\n";
        let files = [
            (PAGE, page),
            ("crates/varve-sim/tests/planted_bugs.rs", "planted! {\n    one_test: Bug;\n}\n"),
            ("crates/varve-engine/src/a.rs", "    #[test]\n    fn two_tests() {}\n"),
        ];
        assert_eq!(findings_of(check, &files), ["docs/hazards.md:4: there is no test no_test"]);
    }
}
