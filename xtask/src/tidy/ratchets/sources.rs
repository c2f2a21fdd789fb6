//! What the ratchets count in: the production code of the workspace as syntax trees, all its comments, and its new
//! commits.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use syn::{Attribute, ImplItem, Item, TraitItem};

use crate::tidy::ratchets::commits::Commit;
#[cfg(test)]
use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::source::{Comment, line_comments};
use crate::tidy::tree::{SourceFile, Tree};

/// Everything that the ratchets look at.
pub(crate) struct Sources<'a> {
    /// All files.
    pub(crate) tree: &'a Tree,
    /// The Rust files that are shipped, without their tests, in the order of their paths.
    pub(crate) production: Vec<ParsedFile<'a>>,
    /// Each Rust file, tests too, with its comments.
    pub(crate) comments: Vec<(&'a SourceFile, Vec<Comment<'a>>)>,
    /// The commits to judge, newest first; none where there is no history to read.
    pub(crate) commits: Option<Vec<Commit>>,
}

/// One production file.
pub(crate) struct ParsedFile<'a> {
    pub(crate) file: &'a SourceFile,
    pub(crate) syntax: syn::File,
}

impl<'a> Sources<'a> {
    /// Parses the production code of a tree.
    pub(crate) fn parse(tree: &'a Tree, commits: Option<Vec<Commit>>) -> Result<Self> {
        let mut production = Vec::new();
        let mut tests = BTreeSet::new();
        for file in tree.rust().filter(|file| !is_beside_production(file)) {
            let mut syntax = syn::parse_file(&file.text).map_err(|error| {
                anyhow::anyhow!("parse {}:{}: {error}", file.path, error.span().start().line)
            })?;
            let below = directory_of_modules(&file.path).context("a Rust file ends in .rs")?;
            remove_tests(&mut syntax.items, &below, &mut tests);
            production.push(ParsedFile { file, syntax });
        }
        production.retain(|parsed| {
            let stem = parsed.file.path.trim_end_matches(".rs");
            let mut ends = stem.match_indices('/').map(|(at, _)| at).chain([stem.len()]);
            !ends.any(|end| tests.contains(&stem[..end]))
        });
        production.sort_by(|one, other| one.file.path.cmp(&other.file.path));
        let comments = tree.rust().map(|file| (file, line_comments(&file.text))).collect();
        Ok(Self { tree, production, comments, commits })
    }
}

/// Whether a file is a test or an example as a whole.
fn is_beside_production(file: &SourceFile) -> bool {
    file.is_test() || file.path.split('/').any(|part| part == "examples")
}

/// Where the modules lie that a file declares: beside `mod.rs`, `lib.rs` and `main.rs`, else in the directory of its
/// own name.
pub(crate) fn directory_of_modules(path: &str) -> Option<String> {
    let stem = path.strip_suffix(".rs")?;
    let (directory, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let is_own = !["mod", "lib", "main"].contains(&name);
    Some(if is_own { stem } else { directory }.to_owned())
}

/// Takes the items for tests out, and notes which modules in files of their own are for tests only.
fn remove_tests(items: &mut Vec<Item>, below: &str, tests: &mut BTreeSet<String>) {
    items.retain_mut(|item| match item {
        Item::Mod(module) if is_for_tests(&module.attrs) => {
            if module.content.is_none() {
                tests.insert(format!("{below}/{}", module.ident));
            }
            false
        }
        Item::Mod(module) => {
            if let Some((_, items)) = &mut module.content {
                remove_tests(items, &format!("{below}/{}", module.ident), tests);
            }
            true
        }
        Item::Impl(block) => {
            block.items.retain(|item| !is_for_tests(impl_attributes(item)));
            !is_for_tests(&block.attrs)
        }
        Item::Trait(item) => {
            item.items.retain(|item| !is_for_tests(trait_attributes(item)));
            !is_for_tests(&item.attrs)
        }
        other => !is_for_tests(attributes(other)),
    });
}

/// Whether the attributes hold `#[cfg(test)]`.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn impl_attributes(item: &ImplItem) -> &[Attribute] {
    match item {
        ImplItem::Const(item) => &item.attrs,
        ImplItem::Fn(item) => &item.attrs,
        ImplItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

fn trait_attributes(item: &TraitItem) -> &[Attribute] {
    match item {
        TraitItem::Const(item) => &item.attrs,
        TraitItem::Fn(item) => &item.attrs,
        TraitItem::Type(item) => &item.attrs,
        _ => &[],
    }
}

/// What a ratchet finds in these files.
#[cfg(test)]
pub(crate) fn places_in(
    count: fn(&Sources<'_>) -> Vec<CountedPlace>,
    files: &[(&str, &str)],
) -> Vec<String> {
    let tree = Tree::of(files);
    let sources = Sources::parse(&tree, None).unwrap();
    count(&sources).iter().map(ToString::to_string).collect()
}

/// What a ratchet finds in these commits of a repository with these files.
#[cfg(test)]
pub(crate) fn places_in_commits(
    count: fn(&Sources<'_>) -> Vec<CountedPlace>,
    files: &[(&str, &str)],
    commits: Vec<Commit>,
) -> Vec<String> {
    let tree = Tree::of(files);
    let sources = Sources::parse(&tree, Some(commits)).unwrap();
    count(&sources).iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_left_out_wherever_they_stand() {
        let lib = "mod a;\n#[cfg(test)]\nmod rig;\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n\
                   #[cfg(test)]\nstruct C;\nimpl A {\n    #[cfg(test)]\n    fn d() {}\n    fn e() {}\n}\n";
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", lib),
            ("crates/x/src/a.rs", ""),
            ("crates/x/src/rig.rs", ""),
            ("crates/x/src/rig/more.rs", ""),
            ("crates/x/src/a/tests.rs", "this does not parse"),
            ("crates/x/examples/f.rs", "neither does this"),
        ]);
        let sources = Sources::parse(&tree, None).unwrap();
        let paths: Vec<&str> = sources.production.iter().map(|p| p.file.path.as_str()).collect();
        assert_eq!(paths, ["crates/x/src/a.rs", "crates/x/src/lib.rs"]);
        let items = &sources.production[1].syntax.items;
        assert_eq!(items.len(), 2, "the module and the impl");
        assert!(matches!(&items[1], Item::Impl(block) if block.items.len() == 1));
    }

    #[test]
    fn a_file_that_does_not_parse_is_named() {
        let tree = Tree::of(&[("crates/x/src/lib.rs", "\nfn (")]);
        let error = Sources::parse(&tree, None).err().expect("it does not parse");
        assert!(error.to_string().starts_with("parse crates/x/src/lib.rs:2: "), "{error}");
    }
}
