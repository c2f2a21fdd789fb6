//! Fields that the whole crate may touch: the struct with most of them gives the figure.
//!
//! A struct with dozens of `pub(crate)` fields has no wall: to change one file, one reads all that may touch them.

use syn::{Field, Visibility};

use crate::tidy::ratchets::declarations::Declarations;
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

/// The structs that have `pub(crate)` fields, each with their number.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let mut found = Vec::new();
    for (path, item) in Declarations::of(sources).structs {
        let open = item.fields.iter().filter(|field| is_open(field)).count();
        if open > 0 {
            let what = format!("`{}` has {open} fields that are `pub(crate)`", item.ident);
            let line = item.ident.span().start().line;
            found.push(CountedPlace::line(path, line, what).of_size(open));
        }
    }
    found
}

fn is_open(field: &Field) -> bool {
    matches!(&field.vis, Visibility::Restricted(within) if within.path.is_ident("crate"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn fields_of_the_crate_are_counted_for_each_struct() {
        let text = "struct A {\n    pub(crate) b: u8,\n    pub(crate) c: u8,\n    pub(super) d: u8,\n    \
                    pub e: u8,\n    f: u8,\n}\nstruct G(pub(crate) u8);\nstruct H {\n    i: u8,\n}\n";
        assert_eq!(
            places_in(count, &[("crates/a/src/b.rs", text)]),
            [
                "crates/a/src/b.rs:1: `A` has 2 fields that are `pub(crate)`",
                "crates/a/src/b.rs:8: `G` has 1 fields that are `pub(crate)`",
            ]
        );
    }
}
