//! Types and functions where they are declared.

use syn::visit::{self, Visit};
use syn::{Ident, ItemEnum, ItemStruct, ItemTrait, ItemUnion, Signature};

use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::Sources;

/// A struct, enum, union or trait where it is declared.
pub(crate) struct TypeName<'a> {
    path: &'a str,
    line: usize,
    /// Its name.
    pub(crate) name: String,
}

impl TypeName<'_> {
    /// The place of the declaration; `what` goes on behind the name.
    pub(crate) fn place(&self, what: &str) -> CountedPlace {
        CountedPlace::line(self.path, self.line, format!("`{}` {what}", self.name))
    }
}

/// All types of the production code.
pub(crate) fn types<'a>(sources: &Sources<'a>) -> Vec<TypeName<'a>> {
    let mut found = Vec::new();
    for parsed in &sources.production {
        let mut finder = TypeFinder { path: &parsed.file.path, found };
        finder.visit_file(&parsed.syntax);
        found = finder.found;
    }
    found
}

struct TypeFinder<'a> {
    path: &'a str,
    found: Vec<TypeName<'a>>,
}

impl TypeFinder<'_> {
    fn note(&mut self, name: &Ident) {
        let line = name.span().start().line;
        self.found.push(TypeName { path: self.path, line, name: name.to_string() });
    }
}

impl<'ast> Visit<'ast> for TypeFinder<'_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.note(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.note(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.note(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.note(&item.ident);
        visit::visit_item_trait(self, item);
    }
}

/// What a check finds in one signature of the file at a path.
pub(crate) type InSignature = fn(&str, &Signature) -> Vec<CountedPlace>;

/// What `check` finds in the signatures of all functions of the production code.
pub(crate) fn in_signatures(sources: &Sources<'_>, check: InSignature) -> Vec<CountedPlace> {
    let mut found = Vec::new();
    for parsed in &sources.production {
        let mut finder = SignatureFinder { path: &parsed.file.path, check, found };
        finder.visit_file(&parsed.syntax);
        found = finder.found;
    }
    found
}

struct SignatureFinder<'a> {
    path: &'a str,
    check: InSignature,
    found: Vec<CountedPlace>,
}

impl<'ast> Visit<'ast> for SignatureFinder<'_> {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.found.extend((self.check)(self.path, signature));
        visit::visit_signature(self, signature);
    }
}
