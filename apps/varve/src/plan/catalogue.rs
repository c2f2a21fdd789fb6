//! Catalogues: the built-in one, files of users on top of it, and what is in them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use varve_client::{Failure, Result};
use varve_tool_plan::CostBasis;
use varve_tool_plan::catalogue::Catalogue;
use varve_tool_plan::errata::{ERRATA, Erratum};
use varve_tool_plan::report::{Document, ReportTable, of_cost_basis};

use super::form::{OutputForm, refused};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Files to plan with.
#[derive(Args, Clone, Debug)]
pub(crate) struct Catalogues {
    /// TOML file of drives, nodes, prices and measurements, on top of the built-in ones; may be repeated
    #[arg(long = "catalogue", value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Catalogues {
    /// The built-in catalogue with the files on top.
    pub(crate) fn read(&self) -> Result<Catalogue> {
        let mut catalogue = Catalogue::built_in();
        for path in &self.files {
            let text = text(path)?;
            catalogue.add(&path.display().to_string(), &text).map_err(refused)?;
        }
        Ok(catalogue)
    }
}

fn text(path: &Path) -> Result<String> {
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let bytes = read.map_err(|error| {
        let what = format!("read catalogue {}: {error}", path.display());
        Failure::misuse(what).hint("give a readable TOML file, or leave --catalogue out")
    })?;
    if bytes as u64 > FILE_BYTES_MAX {
        let what = format!("catalogue {} is larger than 4 MiB", path.display());
        return Err(Failure::misuse(what).hint("split it, and repeat --catalogue"));
    }
    Ok(text)
}

/// List the drives, nodes, clusters and workloads to plan with, and the faults of the sources
#[derive(Args, Debug)]
pub(crate) struct CatalogueList {
    #[command(flatten)]
    catalogues: Catalogues,
    #[command(flatten)]
    form: OutputForm,
}

/// Names of what a catalogue has.
#[derive(Serialize)]
struct CatalogueNames<'a> {
    drives: Vec<&'a String>,
    nodes: Vec<&'a String>,
    clusters: Vec<&'a String>,
    workloads: Vec<&'a String>,
    prices: CostBasis,
    errata: &'static [Erratum],
}

impl CatalogueList {
    pub(crate) fn run(self) -> Result<String> {
        let catalogue = self.catalogues.read()?;
        let names = CatalogueNames {
            drives: catalogue.drives.keys().collect(),
            nodes: catalogue.nodes.keys().collect(),
            clusters: catalogue.clusters.keys().collect(),
            workloads: catalogue.workloads.keys().collect(),
            prices: CostBasis::of(&catalogue.prices),
            errata: &ERRATA,
        };
        let document = Document::new("Catalogue")
            .table("Workloads", workloads(&catalogue))
            .table("Nodes", nodes(&catalogue))
            .table("Drives", drives(&catalogue))
            .table("Clusters", clusters(&catalogue))
            .table("Costs are counted with", of_cost_basis(&names.prices))
            .errata(ERRATA.iter().map(|erratum| erratum.id));
        self.form.print(&names, &document)
    }
}

fn workloads(catalogue: &Catalogue) -> ReportTable {
    let rows = catalogue.workloads.iter().map(|(name, workload)| {
        let (block, reads) = (workload.block.to_string(), workload.read_share.to_string());
        let protection = workload.protection.to_string();
        vec![
            name.clone(),
            block,
            reads,
            protection,
            workload.about.clone(),
            workload.source.clone(),
        ]
    });
    let header = vec!["name", "block", "reads", "protection", "what", "source"];
    ReportTable { header, rows: rows.collect() }
}

fn nodes(catalogue: &Catalogue) -> ReportTable {
    let rows = catalogue.nodes.iter().map(|(name, node)| {
        let drives = match node.drives_max {
            Some(most) => format!("{}–{most} × {}", node.drives, node.drive.get_ref()),
            None => format!("{} × {}", node.drives, node.drive.get_ref()),
        };
        let links = format!("{} × {}", node.ports, node.speed);
        vec![name.clone(), drives, links, node.about.clone(), node.source.clone()]
    });
    ReportTable {
        header: vec!["name", "drives", "network", "what", "source"],
        rows: rows.collect(),
    }
}

fn drives(catalogue: &Catalogue) -> ReportTable {
    let rows = catalogue.drives.iter().map(|(name, drive)| {
        let price = drive.price.map_or("–".to_owned(), |price| price.to_string());
        vec![
            name.clone(),
            drive.capacity.to_string(),
            price,
            drive.about.clone(),
            drive.source.clone(),
        ]
    });
    ReportTable {
        header: vec!["name", "capacity", "price", "what", "source"],
        rows: rows.collect(),
    }
}

fn clusters(catalogue: &Catalogue) -> ReportTable {
    let rows = catalogue.clusters.iter().map(|(name, cluster)| {
        let nodes = format!("{} × {}", cluster.nodes, cluster.node.get_ref());
        vec![name.clone(), nodes, cluster.protection.to_string(), cluster.source.clone()]
    });
    ReportTable { header: vec!["name", "nodes", "protection", "source"], rows: rows.collect() }
}
