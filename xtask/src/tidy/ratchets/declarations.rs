//! What the production code declares.

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

/// Types, structs among them, and functions of the production code, with the paths of their files.
#[derive(Default)]
pub(crate) struct Declarations<'a> {
    path: &'a str,
    pub(crate) types: Vec<TypeName<'a>>,
    pub(crate) structs: Vec<(&'a str, &'a ItemStruct)>,
    pub(crate) signatures: Vec<(&'a str, &'a Signature)>,
}

impl<'a> Declarations<'a> {
    pub(crate) fn of(sources: &'a Sources<'_>) -> Self {
        let mut found = Self::default();
        for parsed in &sources.production {
            found.path = &parsed.file.path;
            found.visit_file(&parsed.syntax);
        }
        found
    }

    fn note(&mut self, name: &Ident) {
        let line = name.span().start().line;
        self.types.push(TypeName { path: self.path, line, name: name.to_string() });
    }
}

impl<'a> Visit<'a> for Declarations<'a> {
    fn visit_item_struct(&mut self, item: &'a ItemStruct) {
        self.note(&item.ident);
        self.structs.push((self.path, item));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'a ItemEnum) {
        self.note(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'a ItemUnion) {
        self.note(&item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        self.note(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_signature(&mut self, signature: &'a Signature) {
        self.signatures.push((self.path, signature));
        visit::visit_signature(self, signature);
    }
}
