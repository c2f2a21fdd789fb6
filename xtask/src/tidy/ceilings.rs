//! Files of at most 800 and functions of at most 70 lines of production code. What is longer stands in a list that only
//! shrinks.
//!
//! A line of the list is `PATH LINES` or `PATH::FUNCTION LINES`. Growth beyond the listed number fails, and so does a
//! number that is higher than need be.

use std::collections::BTreeMap;

use crate::tidy::source::{code_only, test_lines, without_tests};
use crate::tidy::tree::{Finding, SourceFile, Tree};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const LIST: &str = "xtask/tidy-exceptions.txt";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut listed = exceptions(tree);
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        for (subject, lines, ceiling) in measure(file) {
            let exception = listed.remove(&subject);
            if let Some(what) = judge(lines, ceiling, exception) {
                findings.push(Finding::file(&subject, what));
            }
        }
    }
    for subject in listed.keys() {
        findings.push(Finding::file(LIST, format!("{subject} is gone: remove its line")));
    }
    findings
}

fn judge(lines: usize, ceiling: usize, exception: Option<usize>) -> Option<String> {
    match exception {
        None if lines > ceiling => Some(format!(
            "{lines} lines are more than {ceiling}: split where a part has a name of its own"
        )),
        None => None,
        Some(_) if lines <= ceiling => {
            Some(format!("{lines} lines need no exception: remove it from {LIST}"))
        }
        Some(listed) if lines > listed => {
            Some(format!("{lines} lines, grown beyond the {listed} of {LIST}"))
        }
        Some(listed) if lines < listed => {
            Some(format!("{lines} lines: lower the {listed} of {LIST}"))
        }
        Some(_) => None,
    }
}

fn exceptions(tree: &Tree) -> BTreeMap<String, usize> {
    let text = tree.file(LIST).map_or("", |file| &file.text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| {
            let (subject, lines) = line.rsplit_once(' ')?;
            Some((subject.to_owned(), lines.parse().ok()?))
        })
        .collect()
}

/// The file and each of its functions with its lines and ceiling.
fn measure(file: &SourceFile) -> Vec<(String, usize, usize)> {
    let lines = file.text.lines().count() - test_lines(&file.text);
    let mut subjects = vec![(file.path.clone(), lines, FILE_LINES_MAX)];
    let code = without_tests(&code_only(&file.text));
    for (name, length) in functions(&code) {
        subjects.push((format!("{}::{name}", file.path), length, FUNCTION_LINES_MAX));
    }
    subjects
}

/// Functions and their lines from `fn` to the closing brace. Relies on rustfmt: the brace stands at the indentation of
/// the `fn`.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = line.len() - line.trim_start().len();
        let closes = |line: &&str| {
            let own = line.len() - line.trim_start().len() == indent;
            own && (line.trim_start().starts_with('}') || line.trim_end().ends_with(';'))
        };
        let one_line = line.trim_end().ends_with('}') || line.trim_end().ends_with(';');
        let length = if one_line {
            1
        } else {
            lines[start + 1..].iter().position(closes).map_or(1, |end| end + 2)
        };
        found.push((name.to_owned(), length));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix("fn ") {
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_')?;
            return Some(&after[..end]).filter(|name| !name.is_empty());
        }
        let (word, after) = rest.split_once(' ')?;
        let modifier =
            word.starts_with("pub") || ["const", "async", "unsafe", "extern"].contains(&word);
        if !modifier {
            return None;
        }
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_of;

    fn function(name: &str, body_lines: usize) -> String {
        format!(
            "    pub(crate) async fn {name}(&self) {{\n{}    }}\n",
            "        x();\n".repeat(body_lines)
        )
    }

    #[test]
    fn long_functions_and_files_are_found() {
        let text = format!("//! X.\n{}{}", function("long", 69), function("fits", 68));
        let found = findings_of(check, &[("a.rs", &text)]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("a.rs::long: 71 lines are more than 70"), "{found:?}");
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    // x\n".repeat(900));
        let text = format!("{}{tests}", "// x\n".repeat(800));
        assert!(findings_of(check, &[("a.rs", &text)]).is_empty());
        let text = format!("{}{tests}", "// x\n".repeat(801));
        let found = findings_of(check, &[("a.rs", &text)]);
        assert!(found[0].starts_with("a.rs: 801 lines"), "{found:?}");
    }

    #[test]
    fn exceptions_only_shrink() {
        let text = format!("//! X.\n{}", function("long", 78));
        let judged = |list: &str| findings_of(check, &[("a.rs", &text), (LIST, list)]);
        assert!(judged("# why\na.rs::long 80\n").is_empty());
        assert!(judged("a.rs::long 79\n")[0].contains("grown beyond the 79"));
        assert!(judged("a.rs::long 90\n")[0].contains("lower the 90"));
        assert!(judged("a.rs::long 80\nb.rs 900\n")[0].contains("b.rs is gone"));
    }

    #[test]
    fn declarations_and_one_liners_are_short() {
        let code = "fn a() {}\nfn b(\n    x: u8,\n);\npub const fn c() -> u8 {\n    1\n}\nlet fnord = 1;\n";
        let lengths: Vec<(String, usize)> = functions(code);
        let expected = [("a".to_owned(), 1), ("b".to_owned(), 3), ("c".to_owned(), 3)];
        assert_eq!(lengths, expected);
    }
}
