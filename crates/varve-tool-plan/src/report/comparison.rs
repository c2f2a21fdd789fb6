//! Two clusters beside each other as a document.

use super::document::{Document, ReportTable};
use crate::compare::Comparison;
use crate::search::money;
use crate::units::{Bytes, short, times};

/// All figures, nodes for parity, and the price at which both cost the same.
#[must_use]
pub fn of_comparison(comparison: &Comparison) -> Document {
    let Comparison { first, second, multipliers: [nodes, protection], .. } = comparison;
    let mut facts = vec![(
        "normalised",
        format!(
            "rates of {first} × {} for nodes; writes × {} for protection too",
            short(*nodes),
            short(*protection)
        ),
    )];
    let blocks = |[first, second]: [Bytes; 2]| match first == second {
        true => first.to_string(),
        false => format!("{first} of the first, {second} of the second"),
    };
    facts.push(("blocks read", blocks(comparison.read_block_bytes)));
    facts.push(("blocks written", blocks(comparison.write_block_bytes)));
    if !comparison.currency.is_empty() {
        facts.push(("currency", comparison.currency.clone()));
    }
    if let Some(price) = comparison.break_even_drive {
        let price = money(price, &comparison.currency);
        facts.push((
            "break-even",
            format!("a usable TB costs the same when a drive of {second} costs {price}"),
        ));
    }
    let figures = comparison.figures.iter().map(|figure| {
        let cells =
            [figure.what.clone(), short(figure.first), short(figure.second), times(figure.gain)];
        cells.into_iter().chain([figure.errata.join(" ")]).collect()
    });
    let header = vec!["what", "first", "second", "better", "errata"];
    let figures = ReportTable { header, rows: figures.collect() };
    let parity = comparison.parity.iter().map(|parity| {
        vec![
            parity.what.to_owned(),
            short(parity.nodes.exact),
            parity.nodes.count.to_string(),
            parity.errata.join(" "),
        ]
    });
    let parity =
        ReportTable { header: vec!["in", "exactly", "nodes", "errata"], rows: parity.collect() };
    let errata = comparison.figures.iter().flat_map(|figure| figure.errata.iter().copied());
    let errata =
        errata.chain(comparison.parity.iter().flat_map(|parity| parity.errata.iter().copied()));
    let errata: Vec<&str> = errata.chain(comparison.errata.iter().map(String::as_str)).collect();
    Document::new(format!("{first} and {second}"))
        .facts(facts)
        .table("Figures", figures)
        .table(&format!("Nodes of {first} that equal {second}"), parity)
        .notes("Warnings", comparison.warnings.clone())
        .errata(errata)
}
