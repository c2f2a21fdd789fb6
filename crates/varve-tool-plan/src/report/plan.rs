//! A plan as a document: the demand, the alternatives beside each other, and the best of them in full.

use super::document::{Document, Table};
use crate::demand::Demand;
use crate::layout::Layout;
use crate::rounding::real;
use crate::search::{Plan, Rank, money};
use crate::units::{Amount, ByteRate, Bytes, Joules, Money, OpRate, short};

/// Alternatives that are shown.
const SHOWN: usize = 12;

/// What stands where a figure is not known.
const UNKNOWN: &str = "–";

/// The plan: demand, alternatives, and the best one in full.
#[must_use]
pub fn of_plan(plan: &Plan) -> Document {
    let mut document = Document::new("Plan").facts(asked(plan));
    document = document.table(&heading(plan), alternatives(plan));
    let late = plan.layouts.iter().filter(|layout| layout.is_late()).count();
    let best_of = match late {
        0 => "Best by each figure",
        late if late == plan.layouts.len() => "Best by each figure; all are late",
        _ => "Best by each figure, without those that are late",
    };
    document = document.table(best_of, best(plan));
    let Some(first) = plan.layouts.first() else {
        let none = vec!["no kind of node meets the demand: see below".to_owned()];
        return left_out(document.notes("Result", none), plan);
    };
    document = document.table("Why so many nodes", reasons(first));
    for (index, part) in in_full(first, &plan.currency).parts.into_iter().enumerate() {
        if index == 0 {
            let heading = format!("{}: {} nodes, {}", first.node, first.nodes, first.protection);
            document.parts.push(super::document::Part::Heading(heading));
        }
        document.parts.push(part);
    }
    left_out(document, plan)
}

/// One layout in full.
#[must_use]
pub fn of_layout(layout: &Layout, currency: &str) -> Document {
    let mut document = in_full(layout, currency);
    document.title = format!("{}: {} nodes, {}", layout.node, layout.nodes, layout.protection);
    document
}

fn in_full(layout: &Layout, currency: &str) -> Document {
    Document::new("")
        .facts(hardware(layout))
        .table("Running", running(layout))
        .table("Cost", costs(layout, currency))
        .notes("Figures come from", layout.supply.basis.clone())
        .notes("Risks", layout.risks.clone())
        .errata(layout.errata.iter().map(String::as_str))
}

fn asked(plan: &Plan) -> Vec<(&'static str, String)> {
    let Plan { demand, policy, .. } = plan;
    let mut facts = vec![("class", demand.class.name().to_owned())];
    facts.extend(asked_amounts(demand));
    let protections = policy.protections.iter().map(ToString::to_string);
    facts.push(("protection", protections.collect::<Vec<_>>().join(" or ")));
    facts.push(("filled to at most", policy.fill.to_string()));
    if policy.reduction() > 1.0 {
        facts.push(("reduction ratio", short(policy.reduction())));
    }
    facts.push(("for", policy.time_seconds.to_string()));
    facts
}

fn asked_amounts(demand: &Demand) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if demand.usable_bytes > Bytes::ZERO {
        let growth = demand.growth_per_year;
        let grows =
            if growth.base() > 0.0 { format!(", growing {growth} a year") } else { String::new() };
        facts.push(("data", format!("{}{grows}", demand.usable_bytes)));
    }
    let operations = demand.operations();
    if (operations.reads + operations.writes) > OpRate::ZERO {
        let all = operations.reads + operations.writes;
        let (block, reads) = (demand.block_bytes, demand.read_share);
        facts.push(("operations", format!("{all}/s of {block}, {reads} reads")));
    }
    if demand.machines > 0 {
        facts.push((
            "machines",
            format!("{} of {}/s", demand.machines, demand.operations_per_machine),
        ));
    }
    for (label, rate) in [("reading", demand.read_stream()), ("writing", demand.write_stream())] {
        if rate > ByteRate::ZERO {
            facts.push((label, rate.to_string()));
        }
    }
    facts.extend(demand.latency_seconds.map(|latency| ("latency", format!("within {latency}"))));
    facts
}

fn heading(plan: &Plan) -> String {
    let spelled =
        Rank::ALL.iter().find(|(rank, _)| *rank == plan.rank).map_or("", |(_, name)| *name);
    match plan.layouts.len() {
        all if all > SHOWN => format!("Alternatives by {spelled}, {SHOWN} of {all}"),
        _ => format!("Alternatives by {spelled}"),
    }
}

fn figure(value: Option<f64>) -> String {
    value.map_or(UNKNOWN.to_owned(), short)
}

fn alternatives(plan: &Plan) -> Table {
    let header = vec![
        "node",
        "nodes",
        "drives",
        "protection",
        "bound by",
        "usable",
        "cost",
        "per op/s",
        "per TB",
        "W/TB",
        "J/GB",
        "risks",
    ];
    let row = |layout: &Layout| {
        vec![
            layout.node.clone(),
            layout.nodes.to_string(),
            format!("{} × {}", layout.nodes * layout.drives_per_node, layout.drive),
            layout.protection.to_string(),
            layout.binding.to_owned(),
            layout.usable_bytes.to_string(),
            figure(Rank::Cost.figure(layout)),
            figure(Rank::PerOperation.figure(layout)),
            figure(Rank::PerTb.figure(layout)),
            figure(Rank::WattsPerTb.figure(layout)),
            figure(Rank::JoulesPerGb.figure(layout)),
            layout.risks.len().to_string(),
        ]
    };
    Table { header, rows: plan.layouts.iter().take(SHOWN).map(row).collect() }
}

fn best(plan: &Plan) -> Table {
    let rows = plan.best_by_each().into_iter().map(|(rank, layout)| {
        let spelled =
            Rank::ALL.iter().find(|(each, _)| *each == rank).map_or("", |(_, name)| *name);
        vec![
            spelled.to_owned(),
            layout.node.clone(),
            layout.protection.to_string(),
            figure(rank.figure(layout)),
        ]
    });
    Table { header: vec!["figure", "node", "protection", "value"], rows: rows.collect() }
}

fn reasons(layout: &Layout) -> Table {
    let rows = layout.terms.iter().map(|term| {
        let binds = if term.what == layout.binding { "binds" } else { "" };
        let exact = short(term.nodes.exact);
        vec![
            term.what.to_owned(),
            exact,
            term.nodes.count.to_string(),
            term.formula.to_owned(),
            binds.to_owned(),
        ]
    });
    Table { header: vec!["what", "exactly", "nodes", "formula", ""], rows: rows.collect() }
}

/// How many, and why where something asked for them.
fn nodes(layout: &Layout) -> String {
    match layout.terms.is_empty() {
        true => layout.nodes.to_string(),
        false => format!("{}, bound by {}", layout.nodes, layout.binding),
    }
}

fn hardware(layout: &Layout) -> Vec<(&'static str, String)> {
    let groups = layout.placement_groups;
    let mut facts = vec![
        ("nodes", nodes(layout)),
        (
            "drives",
            format!(
                "{} in each, {} {} in all",
                layout.drives_per_node,
                layout.nodes * layout.drives_per_node,
                layout.drive
            ),
        ),
        ("OSDs", layout.osds.to_string()),
        ("monitors", layout.monitors.to_string()),
        ("raw", layout.raw_bytes.to_string()),
        ("usable", layout.usable_bytes.to_string()),
        ("may be stored", layout.planned_bytes.to_string()),
        ("filled at the end", layout.filled.to_string()),
        (
            "placement groups",
            format!(
                "{} (formula {}), {} an OSD",
                groups.count,
                groups.formula,
                short(groups.per_osd)
            ),
        ),
    ];
    if let Some(journals) = &layout.journals {
        let where_to = match journals.on_each_drive.as_slice() {
            [] => "on the data drives".to_owned(),
            counts => format!(
                "{} on the journal drives of a node",
                counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" + ")
            ),
        };
        facts.push(("journals", format!("{} each, {where_to}", journals.size_bytes)));
    }
    facts.extend(
        layout.metadata_cache_bytes.map(|size| ("cache for metadata", format!("{size} a node"))),
    );
    facts.extend(layout.rack_units.map(|units| ("rack units", short(units))));
    facts
}

fn running(layout: &Layout) -> Table {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |what: &str, value: Option<String>| {
        rows.push(vec![what.to_owned(), value.unwrap_or(UNKNOWN.to_owned())]);
    };
    let reach = layout.reach;
    add("operations a second", reach.operations_per_second.map(|rate| rate.to_string()));
    add("reading", reach.read_bytes_per_second.map(|rate| rate.to_string()));
    add("writing", reach.write_bytes_per_second.map(|rate| rate.to_string()));
    let traffic = layout.traffic;
    let (sends, receives) =
        (traffic.node_sends_bytes_per_second, traffic.node_receives_bytes_per_second);
    add(
        "network of a node",
        Some(format!("sends {sends}, receives {receives}: {} used", traffic.used)),
    );
    add("drives last", layout.drive_life_years.map(|years| format!("{} years", short(years))));
    if layout.journals.as_ref().is_some_and(|journals| !journals.on_each_drive.is_empty()) {
        add(
            "journal drives last",
            layout.journal_life_years.map(|years| format!("{} years", short(years))),
        );
    }
    add("a drive is rebuilt in", layout.rebuild.map(|rebuild| rebuild.drive_seconds.to_string()));
    add("a node is rebuilt in", layout.rebuild.map(|rebuild| rebuild.node_seconds.to_string()));
    let power = layout.power;
    add("power", power.map(|power| power.total_watts.to_string()));
    add("W for each usable TB", power.map(|power| short(power.watts_per_usable_tb)));
    add("J/GB read", figure_of(power.and_then(|power| power.joules_per_gb_read)));
    add("J/GB written", figure_of(power.and_then(|power| power.joules_per_gb_written)));
    let job = power.and_then(|power| power.job_joules);
    add("energy of the job", job.map(|joules| Joules::of_base(joules).to_string()));
    Table { header: vec!["what", "value"], rows }
}

fn figure_of(value: Option<f64>) -> Option<String> {
    value.map(short)
}

fn costs(layout: &Layout, currency: &str) -> Table {
    let header = vec!["what", "amount"];
    let Some(price) = layout.price else { return Table::default() };
    let own = price.ownership;
    let mut rows = Vec::new();
    let mut add = |what: &str, amount: Option<Money>| {
        let amount = amount.map_or(UNKNOWN.to_owned(), |amount| money(amount, currency));
        rows.push(vec![what.to_owned(), amount]);
    };
    add("purchase", Some(own.purchase));
    add("a node", Some(own.purchase / real(layout.nodes)));
    add("power", layout.power.map(|_| own.power));
    add("rack", layout.rack_units.map(|_| own.rack));
    add("replaced drives", Some(own.replacement));
    add("all together", Some(own.total));
    add("purchase for each usable TB", Some(Money::of_base(price.per_usable_tb)));
    if let Some(per_operation) = price.per_operation {
        add("purchase for each operation a second", Some(Money::of_base(per_operation)));
    }
    Table { header, rows }
}

fn left_out(document: Document, plan: &Plan) -> Document {
    let reasons = plan.rejected.iter().map(|rejected| {
        let (node, protection, reason) = (&rejected.node, rejected.protection, &rejected.reason);
        format!("{node}, {protection}: {reason}")
    });
    let mut assumed = Vec::new();
    if !plan.assumed_prices.is_empty() {
        assumed.push(format!("prices: {}", plan.assumed_prices.join(", ")));
    }
    document.notes("Left out", reasons.collect()).notes("Assumed, and in no source", assumed)
}
