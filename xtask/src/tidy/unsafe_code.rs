//! `unsafe` stays in the few crates that exist for it, where clippy holds each block to one operation and its reason.

use crate::tidy::source::code_only;
use crate::tidy::tree::{Finding, Tree};

const ALLOWED: [&str; 5] =
    ["varve-reactor", "varve-media", "varve-media-rados", "varve-parity", "varve-stdx"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| !ALLOWED.contains(&file.crate_name())) {
        for (number, line) in code_only(&file.text).lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "unsafe") || line.contains("(unsafe_code") {
                let what = format!("unsafe code belongs into {}", ALLOWED.join(", "));
                findings.push(Finding::line(&file.path, number + 1, what));
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
    fn unsafe_outside_its_crates_is_found() {
        let code = "//! unsafe\nfn f() {\n    unsafe { g() }\n}\n#![expect(unsafe_code)]\n";
        let files = [
            ("crates/varve-engine/src/a.rs", code),
            ("crates/varve-stdx/src/a.rs", code),
            ("crates/varve-engine/src/b.rs", "// unsafe\nlet x = \"unsafe\"; is_unsafe()\n"),
        ];
        let found = findings_of(check, &files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("crates/varve-engine/src/a.rs:3: "), "{found:?}");
    }
}
