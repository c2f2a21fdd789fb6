//! One name for one thing: a name that stands for three or more types says too little, and two words say more.

use std::collections::BTreeMap;

use crate::tidy::ratchets::declarations::Declarations;
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

/// As many types of one name are too many.
const SAME_NAME: usize = 3;

/// Types whose name three or more types have.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let types = Declarations::of(sources).types;
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for declared in &types {
        *uses.entry(&declared.name).or_default() += 1;
    }
    let reused = types.iter().filter_map(|declared| {
        let uses = uses[declared.name.as_str()];
        (uses >= SAME_NAME).then(|| declared.place(&format!("is the name of {uses} types")))
    });
    reused.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn names_of_three_types_are_counted_at_each() {
        let files = [
            ("crates/a/src/b.rs", "struct Place;\nstruct Step;\n"),
            ("crates/a/src/c.rs", "enum Place {}\nenum Step {}\n"),
            ("crates/b/src/d.rs", "impl X { type Step = u8; }\ntrait Place {}\n"),
            ("crates/b/tests/e.rs", "struct Step;\n"),
        ];
        let found = places_in(count, &files);
        assert_eq!(
            found,
            [
                "crates/a/src/b.rs:1: `Place` is the name of 3 types",
                "crates/a/src/c.rs:1: `Place` is the name of 3 types",
                "crates/b/src/d.rs:2: `Place` is the name of 3 types",
            ]
        );
    }
}
