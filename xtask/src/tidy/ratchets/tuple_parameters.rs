//! Parameters have names of their own: a tuple hides that a function takes more of them than are good for it.

use syn::{FnArg, Pat, Signature, Type};

use crate::tidy::ratchets::declarations::Declarations;
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

/// Parameters of functions that are taken apart as tuples. Those of closures are not counted: iterators give tuples.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let signatures = Declarations::of(sources).signatures.into_iter();
    signatures.flat_map(|(path, signature)| tuples(path, signature)).collect()
}

fn tuples(path: &str, signature: &Signature) -> Vec<CountedPlace> {
    let tuples = signature.inputs.iter().filter(|input| match input {
        FnArg::Typed(input) => matches!(&*input.pat, Pat::Tuple(_)) && is_tuple(&input.ty),
        FnArg::Receiver(_) => false,
    });
    let line = signature.ident.span().start().line;
    let what = format!("a parameter of `fn {}` is a tuple", signature.ident);
    tuples.map(|_| CountedPlace::line(path, line, what.clone())).collect()
}

fn is_tuple(parameter: &Type) -> bool {
    match parameter {
        Type::Tuple(tuple) => !tuple.elems.is_empty(),
        Type::Reference(reference) => is_tuple(&reference.elem),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn each_tuple_is_counted() {
        let text = "fn a((b, c): (u8, u8), d: u8, (e, f): &(u8, u8)) {}\nfn g(h: (u8, u8)) {}\n\
                    impl A {\n    fn i(&self, (j, _): (u8, u8)) {\n        k.map(|(l, m)| l);\n    }\n}\n";
        assert_eq!(
            places_in(count, &[("crates/a/src/b.rs", text)]),
            [
                "crates/a/src/b.rs:1: a parameter of `fn a` is a tuple",
                "crates/a/src/b.rs:1: a parameter of `fn a` is a tuple",
                "crates/a/src/b.rs:4: a parameter of `fn i` is a tuple",
            ]
        );
    }
}
