//! Functions are named by verbs that say what they do: `encode`, `request`, `to_error`; not by what somebody said or
//! saw.

use syn::Signature;

use crate::tidy::ratchets::declarations::Declarations;
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

const NAMES: [&str; 10] =
    ["asked", "gave", "given", "heard", "meant", "said", "saw", "shown", "told", "wanted"];

/// Functions that have one of these names.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let signatures = Declarations::of(sources).signatures.into_iter();
    signatures.filter_map(|(path, signature)| place(path, signature)).collect()
}

fn place(path: &str, signature: &Signature) -> Option<CountedPlace> {
    let name = signature.ident.to_string();
    let line = signature.ident.span().start().line;
    let is_counted = NAMES.contains(&name.as_str());
    is_counted.then(|| CountedPlace::line(path, line, format!("`fn {name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn functions_of_any_kind_are_counted() {
        let text = "fn told() {}\nfn told_of() {}\nimpl A {\n    pub(crate) async fn said(&self) {}\n}\n\
                    trait B {\n    fn saw(&self);\n}\nfn c() {\n    fn meant() {}\n    told();\n}\n\
                    #[cfg(test)]\nfn shown() {}\n";
        assert_eq!(
            places_in(count, &[("crates/a/src/b.rs", text)]),
            [
                "crates/a/src/b.rs:1: `fn told`",
                "crates/a/src/b.rs:4: `fn said`",
                "crates/a/src/b.rs:7: `fn saw`",
                "crates/a/src/b.rs:10: `fn meant`",
            ]
        );
    }
}
