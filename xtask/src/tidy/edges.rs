//! Calls go down: crates depend on what the table in ARCHITECTURE.md allows, and on nothing else of the workspace.
//!
//! Dependencies of tests are free: cargo itself refuses cycles.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::tidy::tree::{Finding, Tree};

const PAGE: &str = "ARCHITECTURE.md";
const HEADER: &str = "| crate | may depend on |";

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Compares the table with `cargo metadata`.
pub(crate) fn check(tree: &Tree, metadata: &Value) -> Result<Vec<Finding>> {
    let text = tree.file(PAGE).map_or("", |file| &file.text);
    Ok(compare(&allowed(text), &actual(metadata)?))
}

fn compare(allowed: &Edges, actual: &Edges) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, uses) in actual {
        let Some(may) = allowed.get(name) else {
            findings
                .push(Finding::file(PAGE, format!("crate `{name}` is not in the table of edges")));
            continue;
        };
        for used in uses.difference(may) {
            let what = format!(
                "`{name}` uses `{used}`: go through a layer it may use, or argue for the edge in the table"
            );
            findings.push(Finding::file(PAGE, what));
        }
    }
    for name in allowed.keys().filter(|name| !actual.contains_key(*name)) {
        findings.push(Finding::file(
            PAGE,
            format!("the table of edges names `{name}`, which is not a crate"),
        ));
    }
    findings
}

/// The table's rows. `–` stands for nothing.
fn allowed(text: &str) -> Edges {
    let rows = text.lines().skip_while(|line| line.trim() != HEADER).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next()?.trim_matches('`').to_owned();
        let uses = cells.next()?.split(',').map(|used| used.trim().trim_matches('`'));
        let uses = uses.filter(|used| !used.is_empty() && *used != "–").map(str::to_owned);
        Some((name, uses.collect()))
    })
    .collect()
}

fn actual(metadata: &Value) -> Result<Edges> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut edges = Edges::new();
    for package in packages {
        let name = package["name"].as_str().context("a package has no name")?;
        let dependencies =
            package["dependencies"].as_array().context("a package has no dependencies")?;
        let uses = dependencies
            .iter()
            .filter(|dependency| dependency["kind"] != "dev" && dependency["path"].is_string())
            .filter_map(|dependency| dependency["name"].as_str());
        edges.insert(name.to_owned(), uses.map(str::to_owned).collect());
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TABLE: &str = "# A\n\n| crate | may depend on |\n|---|---|\n| `types` | – |\n| `media` | `types`, `reactor` |\n| `gone` | – |\n\ntext\n";

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Value {
        let dependency =
            |(name, kind): &(&str, Option<&str>)| json!({"name": name, "kind": kind, "path": "/x"});
        let mut dependencies: Vec<Value> = uses.iter().map(dependency).collect();
        dependencies.push(json!({"name": "serde", "kind": null}));
        json!({"name": name, "dependencies": dependencies})
    }

    #[test]
    fn edges_outside_the_table_are_found() {
        let metadata = json!({"packages": [
            package("types", &[]),
            package("media", &[("types", None), ("engine", None), ("sim", Some("dev"))]),
            package("new", &[]),
        ]});
        let tree = Tree::of(&[(PAGE, TABLE)]);
        let found: Vec<String> =
            check(&tree, &metadata).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("`media` uses `engine`"), "{found:?}");
        assert!(found[1].contains("`new` is not in the table"), "{found:?}");
        assert!(found[2].contains("`gone`, which is not a crate"), "{found:?}");
    }

    #[test]
    fn allowed_edges_pass() {
        let table = TABLE.replace("| `gone` | – |\n", "");
        let metadata =
            json!({"packages": [package("types", &[]), package("media", &[("types", None)])]});
        assert!(check(&Tree::of(&[(PAGE, &table)]), &metadata).unwrap().is_empty());
    }
}
