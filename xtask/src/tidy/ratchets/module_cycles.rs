//! Modules of one crate that import each other in a cycle: the largest such group gives the figure.
//!
//! A file is a module. It depends on the file that defines what it names by `use` or by a path from `crate`, `super` or
//! `self`; a re-export is followed to there, and makes no dependency of its own. To understand one file of a cycle, one
//! reads them all.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::tidy::ratchets::place::CountedPlace;
use crate::tidy::ratchets::sources::{ParsedFile, Sources, directory_of_modules};

/// A path within a crate, from its root.
type ModulePath = Vec<String>;

/// The cycles of each crate, with how many modules they have.
pub(crate) fn count(sources: &Sources<'_>) -> Vec<CountedPlace> {
    let mut crates: BTreeMap<&str, Vec<&ParsedFile<'_>>> = BTreeMap::new();
    for parsed in &sources.production {
        if let Some((package, _)) = parsed.file.path.split_once("/src/") {
            crates.entry(package).or_default().push(parsed);
        }
    }
    let mut found = Vec::new();
    for (package, files) in crates {
        let graph = Graph::of(package, &files);
        for cycle in graph.cycles() {
            let what = format!("{} modules in one import cycle: {}", cycle.len(), cycle.join(", "));
            found.push(CountedPlace::whole(package, what).of_size(cycle.len()));
        }
    }
    found
}

/// What one file declares and names.
#[derive(Default)]
struct Module {
    /// Names of what it defines itself.
    items: BTreeSet<String>,
    /// Names that it has from elsewhere.
    imports: BTreeMap<String, ModulePath>,
    /// Modules all of whose names it has.
    globs: Vec<ModulePath>,
    /// Paths that it uses.
    used: BTreeSet<ModulePath>,
}

/// The modules of one crate.
struct Graph {
    modules: BTreeMap<ModulePath, Module>,
}

impl Graph {
    fn of(package: &str, files: &[&ParsedFile<'_>]) -> Self {
        let mut modules = BTreeMap::new();
        let paths = files.iter().filter_map(|parsed| module_path(package, &parsed.file.path));
        let known: BTreeSet<ModulePath> = paths.collect();
        for parsed in files {
            let Some(path) = module_path(package, &parsed.file.path) else { continue };
            let mut reader = ModuleReader {
                module: Module::default(),
                at: path.clone(),
                inline: Vec::new(),
                known: &known,
            };
            reader.visit_file(&parsed.syntax);
            modules.insert(path, reader.module);
        }
        Self { modules }
    }

    /// The groups of modules that reach each other, the largest first.
    fn cycles(&self) -> Vec<Vec<String>> {
        let edges: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            self.modules.iter().map(|(path, module)| (path, self.needs(path, module))).collect();
        let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> =
            edges.keys().map(|path| (*path, reached_from(path, &edges))).collect();
        let mut left: BTreeSet<&ModulePath> = edges.keys().copied().collect();
        let mut cycles = Vec::new();
        while let Some(path) = left.pop_first() {
            let reach = &reached[path];
            let cycle: Vec<&ModulePath> =
                reach.iter().copied().filter(|other| reached[*other].contains(path)).collect();
            if cycle.len() > 1 {
                left.retain(|other| !cycle.contains(other));
                cycles.push(cycle.into_iter().map(name_of).collect::<Vec<_>>());
            }
        }
        cycles.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        cycles
    }

    fn needs(&self, own: &ModulePath, module: &Module) -> BTreeSet<&ModulePath> {
        let needed = module.used.iter().filter_map(|path| self.definition(path));
        needed.filter(|path| *path != own).collect()
    }

    /// The module that defines what `path` names; that which should where none is found, as for what macros define.
    fn definition(&self, path: &[String]) -> Option<&ModulePath> {
        self.find(path, &mut BTreeSet::new()).or_else(|| Some(self.split(path)?.0))
    }

    fn find(&self, path: &[String], seen: &mut BTreeSet<ModulePath>) -> Option<&ModulePath> {
        if !seen.insert(path.to_vec()) {
            return None;
        }
        let (own, module, rest) =
            self.split(path).map(|(own, rest)| (own, &self.modules[own], rest))?;
        let Some((name, behind)) = rest.split_first() else { return Some(own) };
        if module.items.contains(name) {
            return Some(own);
        }
        let through = |from: &ModulePath, rest: &[String]| [from, rest].concat();
        if let Some(from) = module.imports.get(name) {
            return self.find(&through(from, behind), seen);
        }
        module.globs.iter().find_map(|from| self.find(&through(from, rest), seen))
    }

    /// The deepest module on a path, and the names behind it.
    fn split<'p>(&self, path: &'p [String]) -> Option<(&ModulePath, &'p [String])> {
        let lengths = (0..=path.len()).rev();
        let mut found = lengths
            .filter_map(|length| Some((self.modules.get_key_value(&path[..length])?.0, length)));
        let (own, length) = found.next()?;
        Some((own, &path[length..]))
    }
}

fn reached_from<'a>(
    path: &'a ModulePath,
    edges: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next = vec![path];
    while let Some(path) = next.pop() {
        next.extend(edges[path].iter().copied().filter(|other| reached.insert(*other)));
    }
    reached
}

/// A module's name in messages, such as `checkpoint::pages`.
fn name_of(path: &ModulePath) -> String {
    if path.is_empty() { "the root".to_owned() } else { path.join("::") }
}

/// The path of a file's module; none for programs beside a library.
fn module_path(package: &str, file: &str) -> Option<ModulePath> {
    let file = file.strip_prefix(package)?.strip_prefix("/src/")?;
    let stem = directory_of_modules(file)?;
    let parts: ModulePath =
        stem.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
    (parts.first().is_none_or(|first| first != "bin")).then_some(parts)
}

/// Reads what a file declares and names.
struct ModuleReader<'a> {
    module: Module,
    /// The file's own path.
    at: ModulePath,
    /// Modules within the file that are being read.
    inline: Vec<String>,
    known: &'a BTreeSet<ModulePath>,
}

impl ModuleReader<'_> {
    /// The path from the crate's root; none for what other crates have.
    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let here = [&self.at[..], &self.inline].concat();
        let (first, rest) = path.split_first()?;
        let mut from = match first.as_str() {
            "crate" => return Some(rest.to_vec()),
            "self" => here,
            "super" => here.split_last()?.1.to_vec(),
            child => {
                let child = [&here[..], &[child.to_owned()]].concat();
                return self.known.contains(&child).then(|| [&child[..], rest].concat());
            }
        };
        let ups = rest.iter().take_while(|part| *part == "super").count();
        from.truncate(from.len().checked_sub(ups)?);
        Some([&from[..], &rest[ups..]].concat())
    }

    fn import(&mut self, tree: &UseTree, above: &[String], is_export: bool) {
        let with = |name: String| [above, &[name]].concat();
        match tree {
            UseTree::Path(tree) => {
                self.import(&tree.tree, &with(tree.ident.to_string()), is_export)
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, above, is_export);
                }
            }
            UseTree::Name(name) if name.ident == "self" => {
                let name = above.last().cloned().unwrap_or_default();
                self.import_as(name, above, is_export);
            }
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.import_as(name.clone(), &with(name), is_export);
            }
            UseTree::Rename(rename) => {
                self.import_as(
                    rename.rename.to_string(),
                    &with(rename.ident.to_string()),
                    is_export,
                );
            }
            UseTree::Glob(_) => {
                let Some(path) = self.absolute(above) else { return };
                if !is_export {
                    self.module.used.insert(path.clone());
                }
                self.module.globs.push(path);
            }
        }
    }

    fn import_as(&mut self, name: String, path: &[String], is_export: bool) {
        let Some(path) = self.absolute(path) else { return };
        if !is_export {
            self.module.used.insert(path.clone());
        }
        if self.inline.is_empty() {
            self.module.imports.insert(name, path);
        }
    }

    fn declare(&mut self, item: &Item) {
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Mod(item) if item.content.is_some() => &item.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Union(item) => &item.ident,
            _ => return,
        };
        self.module.items.insert(name.to_string());
    }
}

impl<'ast> Visit<'ast> for ModuleReader<'_> {
    fn visit_file(&mut self, file: &'ast syn::File) {
        for item in &file.items {
            self.declare(item);
        }
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.inline.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.inline.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_export = !matches!(item.vis, Visibility::Inherited);
        self.import(&item.tree, &[], is_export);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: ModulePath = path.segments.iter().map(|part| part.ident.to_string()).collect();
        let is_local =
            parts.first().is_some_and(|first| ["crate", "self", "super"].contains(&first.as_str()));
        if is_local && parts.len() > 1 {
            self.module.used.extend(self.absolute(&parts));
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast Visibility) {
        // `pub(in crate::a)` names a module and needs nothing of it.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::ratchets::sources::places_in;

    #[test]
    fn a_cycle_is_found_through_re_exports_and_paths() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "mod b;\nmod c;\nmod d;\npub use b::B;\npub(crate) use c::*;\n",
            ),
            ("crates/a/src/b.rs", "mod e;\nuse crate::C;\npub struct B;\n"),
            ("crates/a/src/b/e.rs", "use super::super::d::D;\npub(crate) struct E;\n"),
            ("crates/a/src/c.rs", "pub(crate) struct C;\nfn f() { crate::d::g(); }\n"),
            (
                "crates/a/src/d/mod.rs",
                "pub(crate) struct D;\nuse crate::{B, b as other};\nfn g() {}\n",
            ),
        ];
        let found = places_in(count, &files);
        assert_eq!(found, ["crates/a: 3 modules in one import cycle: b, c, d"]);
    }

    #[test]
    fn declarations_and_tests_make_no_cycle() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;\nmod c;\npub use b::B;\nuse std::fmt;\n"),
            (
                "crates/a/src/b.rs",
                "use crate::c::C;\npub struct B;\n#[cfg(test)]\nmod tests {\n    use super::B;\n}\n",
            ),
            (
                "crates/a/src/c.rs",
                "pub struct C;\n#[cfg(test)]\nmod tests {\n    use crate::B;\n}\n",
            ),
            ("crates/a/src/bin/d.rs", "use a::B;\n"),
            ("crates/b/src/lib.rs", "use a::B;\n"),
        ];
        assert!(places_in(count, &files).is_empty());
    }

    #[test]
    fn each_cycle_is_counted_by_itself_the_largest_first() {
        let files = [
            ("apps/a/src/main.rs", "mod b;\nmod c;\nmod d;\nmod e;\nmod f;\n"),
            ("apps/a/src/b.rs", "use crate::c::C;\nmod inner {\n    use super::super::c;\n}\n"),
            ("apps/a/src/c.rs", "use super::b;\n"),
            ("apps/a/src/d.rs", "use crate::e::{self, E};\nuse crate::b::B;\n"),
            ("apps/a/src/e.rs", "use super::f::*;\n"),
            ("apps/a/src/f.rs", "use crate::d::D as Other;\n"),
        ];
        assert_eq!(
            places_in(count, &files),
            [
                "apps/a: 3 modules in one import cycle: d, e, f",
                "apps/a: 2 modules in one import cycle: b, c",
            ]
        );
    }
}
