//! A cluster that exists as a document.

use super::document::{Document, ReportTable};
use crate::standing::{Assessment, MeasurementFinding};
use crate::units::short;

/// What the cluster holds, its limits, measurements, warnings.
#[must_use]
pub fn of_standing(standing: &Assessment) -> Document {
    let groups = standing.placement_groups;
    let mut facts = vec![
        ("nodes", standing.nodes.to_string()),
        ("OSDs", standing.osds.to_string()),
        ("monitors", standing.monitors.to_string()),
        ("raw", standing.raw_bytes.to_string()),
        ("usable", standing.usable_bytes.to_string()),
        ("placement groups", format!("{} (formula {})", groups.count, groups.formula)),
    ];
    facts.extend(standing.filled.map(|share| ("filled", share.to_string())));
    facts.extend(standing.cache_share.map(|share| ("cache of what is behind", share.to_string())));
    if !standing.journals_on_each_drive.is_empty() {
        let counts = standing.journals_on_each_drive.iter().map(u64::to_string);
        facts.push(("journals on each drive", counts.collect::<Vec<_>>().join(" + ")));
    }
    let limits = standing
        .limits
        .iter()
        .map(|limit| vec![limit.what.to_owned(), limit.bytes_per_second.to_string()]);
    let limits = ReportTable { header: vec!["reading is bound by", "to"], rows: limits.collect() };
    Document::new(format!("Cluster {}", standing.name))
        .facts(facts)
        .table("Limits, tightest first", limits)
        .table("Measured", findings(&standing.findings))
        .notes("Warnings", standing.warnings.clone())
        .errata(standing.errata.iter().map(String::as_str))
}

fn findings(findings: &[MeasurementFinding]) -> ReportTable {
    let header = vec![
        "block",
        "reads",
        "operations/s",
        "rate",
        "a node",
        "an OSD",
        "links used",
        "in flight",
        "machines",
        "source",
    ];
    let rows = findings.iter().map(|finding| {
        vec![
            finding.block_bytes.to_string(),
            finding.read_share.to_string(),
            finding.operations_per_second.to_string(),
            finding.bytes_per_second.to_string(),
            finding.operations_per_node.to_string(),
            finding.operations_per_osd.to_string(),
            finding.links_used.to_string(),
            finding.in_flight.map_or("–".to_owned(), short),
            finding.machines.to_string(),
            finding.source.clone(),
        ]
    });
    ReportTable { header, rows: rows.collect() }
}
