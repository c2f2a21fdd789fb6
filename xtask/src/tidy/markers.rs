//! Nothing is left for later in the code: what is missing is an open item elsewhere, what is there is tested.

use crate::tidy::source::code_only;
use crate::tidy::tree::{Finding, Tree};

/// Words of unfinished work, in code or comments. Written in halves, so that this file does not hold them.
const WORDS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("X", "XX"), concat!("HA", "CK")];

/// Code that stands for code to come, or for a test that does not run.
const CODE: [(&str, &str); 4] = [
    (concat!("to", "do!("), "write it, or leave it out"),
    (concat!("un", "implemented!("), "write it, or leave it out"),
    (concat!("#[ig", "nore"), "assert what it does today"),
    (concat!("d", "bg!("), "log it, or leave it out"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        for (number, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(word) = words.find(|word| WORDS.contains(word)) {
                let what = format!("{word}: finish it, or write it down where open work is listed");
                findings.push(Finding::line(&file.path, number + 1, what));
            }
        }
        for (number, line) in code_only(&file.text).lines().enumerate() {
            for (code, instead) in CODE.iter().filter(|(code, _)| line.contains(code)) {
                findings.push(Finding::line(&file.path, number + 1, format!("{code}: {instead}")));
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
    fn unfinished_work_is_found() {
        let text = format!(
            "// {}: later\nfn f() {{ {}) }}\n// mastodon, \"{}\"\n",
            WORDS[1], CODE[0].0, CODE[3].0
        );
        let found = findings_of(check, &[("a.rs", &text)]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: ") && found[1].starts_with("a.rs:2: "), "{found:?}");
    }
}
