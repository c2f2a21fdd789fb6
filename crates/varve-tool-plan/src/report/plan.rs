//! A plan as a document: the demand, the alternatives beside each other, and the best of them in full.

use super::document::{Document, ReportTable};
use crate::cost::CostBasis;
use crate::demand::Demand;
use crate::layout::Layout;
use crate::rebuild::{Rebuild, Recovery};
use crate::rounding::real;
use crate::search::{DemandPlan, Rank, money};
use crate::units::{Amount, ByteRate, Bytes, Joules, Money, OpRate, Share, short};

/// Alternatives that are shown.
const SHOWN: usize = 12;

/// What stands where a figure is not known.
const UNKNOWN: &str = "–";

/// The plan: demand, alternatives, and the best one in full.
#[must_use]
pub fn of_plan(plan: &DemandPlan) -> Document {
    let document = Document::new("Plan").facts(demand_facts(plan));
    let mut document = document.notes("Warnings", plan.warnings.clone());
    document = document.table(&heading(plan), alternatives(plan));
    let best_of = match plan.best_by_each.iter().any(|best| best.is_late) {
        false if !plan.layouts.iter().any(Layout::is_late) => "Best by each figure",
        false => "Best by each figure, without those that are late",
        true => "Best by each figure; all are late",
    };
    document = document.table(best_of, best(plan));
    let Some(first) = plan.layouts.first() else {
        let none = vec!["no kind of node meets the demand: see below".to_owned()];
        return left_out(document.notes("Result", none), plan);
    };
    document = document.table("Why so many nodes", reasons(first));
    for (index, part) in in_full(first, &plan.cost_basis).parts.into_iter().enumerate() {
        if index == 0 {
            let heading = format!("{}: {} nodes, {}", first.node, first.nodes, first.protection);
            document.parts.push(super::document::ReportPart::Heading(heading));
        }
        document.parts.push(part);
    }
    left_out(document, plan)
}

/// One layout in full.
#[must_use]
pub fn of_layout(layout: &Layout, basis: &CostBasis) -> Document {
    let mut document = in_full(layout, basis);
    document.title = format!("{}: {} nodes, {}", layout.node, layout.nodes, layout.protection);
    document
}

fn in_full(layout: &Layout, basis: &CostBasis) -> Document {
    Document::new("")
        .facts(hardware(layout))
        .table("Running", running(layout))
        .table("Cost", costs(layout, &basis.currency))
        .table("Costs are counted with", of_cost_basis(basis))
        .notes("Figures come from", layout.supply.basis.clone())
        .notes("Risks", layout.risks.clone())
        .errata(layout.errata.iter().map(String::as_str))
}

fn demand_facts(plan: &DemandPlan) -> Vec<(&'static str, String)> {
    let DemandPlan { demand, policy, .. } = plan;
    let mut facts = vec![("class", demand.class.name().to_owned())];
    facts.extend(asked_amounts(demand));
    let protections = policy.protections.iter().map(ToString::to_string);
    facts.push(("protection", protections.collect::<Vec<_>>().join(" or ")));
    facts.push(("filled to at most", policy.fill.to_string()));
    if policy.reduction() > 1.0 {
        facts.push(("reduction ratio", short(policy.reduction())));
    }
    facts.push(("for", policy.time_seconds.to_string()));
    if !plan.currency.is_empty() {
        facts.push(("currency", plan.currency.clone()));
    }
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

fn heading(plan: &DemandPlan) -> String {
    let spelled = spelled(plan.rank);
    let prices = match plan.currency.as_str() {
        "" => String::new(),
        currency => format!(", prices in {currency}"),
    };
    match plan.layouts.len() {
        all if all > SHOWN => format!("Alternatives by {spelled}, {SHOWN} of {all}{prices}"),
        _ => format!("Alternatives by {spelled}{prices}"),
    }
}

fn spelled(rank: Rank) -> &'static str {
    Rank::ALL.iter().find(|(each, _)| *each == rank).map_or("", |(_, name)| *name)
}

fn figure(value: Option<f64>) -> String {
    value.map_or(UNKNOWN.to_owned(), short)
}

fn alternatives(plan: &DemandPlan) -> ReportTable {
    let is_asked = plan.demand.usable_bytes > Bytes::ZERO;
    let (per_tb, watts_per_tb) = match is_asked {
        true => ("per TB asked for", "W/TB asked for"),
        false => ("per usable TB", "W/usable TB"),
    };
    let header = vec![
        "node",
        "nodes",
        "drives",
        "protection",
        "bound by",
        "usable",
        "cost",
        "per op/s",
        per_tb,
        watts_per_tb,
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
    ReportTable { header, rows: plan.layouts.iter().take(SHOWN).map(row).collect() }
}

fn best(plan: &DemandPlan) -> ReportTable {
    let rows = plan.best_by_each.iter().map(|best| {
        vec![
            spelled(best.figure).to_owned(),
            best.node.clone(),
            best.nodes.to_string(),
            best.drives_per_node.to_string(),
            best.protection.to_string(),
            short(best.value),
        ]
    });
    let header = vec!["figure", "node", "nodes", "drives in each", "protection", "value"];
    ReportTable { header, rows: rows.collect() }
}

fn reasons(layout: &Layout) -> ReportTable {
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
    ReportTable { header: vec!["what", "exactly", "nodes", "formula", ""], rows: rows.collect() }
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

fn running(layout: &Layout) -> ReportTable {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut add = |what: &str, value: Option<String>| {
        rows.push(vec![what.to_owned(), value.unwrap_or(UNKNOWN.to_owned())]);
    };
    let reach = layout.reach;
    let reached = |rate: Option<String>, is_bound: bool| {
        let bound = if is_bound { ", bound by the network" } else { "" };
        rate.map(|rate| format!("{rate}{bound}"))
    };
    let bound = reach.bound_by_network;
    let operations = reach.operations_per_second.map(|rate| rate.to_string());
    add("operations a second", reached(operations, bound.operations));
    let read = reach.read_bytes_per_second.map(|rate| rate.to_string());
    add("reading", reached(read, bound.reading));
    let written = reach.write_bytes_per_second.map(|rate| rate.to_string());
    add("writing", reached(written, bound.writing));
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
    let filled = layout.rebuild.filled;
    add("a lost drive is rebuilt", Some(rebuilt(layout.rebuild.drive, filled)));
    add("a lost node is rebuilt", Some(rebuilt(layout.rebuild.node, filled)));
    let power = layout.power;
    add("power", power.map(|power| power.total_watts.to_string()));
    add("W for each usable TB", power.map(|power| short(power.watts_per_usable_tb)));
    let asked = power.and_then(|power| power.watts_per_asked_tb);
    add("W for each TB asked for", asked.map(short));
    add("J/GB read", figure_of(power.and_then(|power| power.joules_per_gb_read)));
    add("J/GB written", figure_of(power.and_then(|power| power.joules_per_gb_written)));
    let job = power.and_then(|power| power.job_joules);
    add("energy of the job", job.map(|joules| Joules::of_base(joules).to_string()));
    ReportTable { header: vec!["what", "value"], rows }
}

/// How a loss is made good.
fn rebuilt(rebuild: Rebuild, filled: Share) -> String {
    let time = rebuild.seconds.map_or("an unknown time".to_owned(), |time| time.to_string());
    let receivers = rebuild.receivers;
    let drives = if receivers == 1 { "drive" } else { "drives" };
    match rebuild.recovery {
        Recovery::Never => "never: what it held is lost".to_owned(),
        Recovery::Spread => {
            format!("in {time}, onto {receivers} other {drives}, all filled to {filled}")
        }
        Recovery::Replacement => {
            format!("not until it is replaced; then in {time}, filled to {filled}")
        }
    }
}

/// Prices and factors behind all costs, and whether a source gives them.
#[must_use]
pub fn of_cost_basis(basis: &CostBasis) -> ReportTable {
    let amount = |amount: Option<Money>| {
        amount.map_or("not counted".to_owned(), |amount| money(amount, &basis.currency))
    };
    let rows = [
        ("a kWh", "kwh", amount(basis.kwh)),
        (
            "power with cooling ÷ power of the machines (PUE)",
            "power_usage_effectiveness",
            short(basis.power_usage_effectiveness),
        ),
        ("a rack unit for a year", "rack_unit_per_year", amount(basis.rack_unit_per_year)),
        ("drives replaced in a year", "replaced_per_year", basis.replaced_per_year.to_string()),
    ];
    let rows = rows.into_iter().map(|(what, field, value)| {
        let is_assumed = basis.assumed.iter().any(|assumed| assumed == field);
        let from = if is_assumed { "assumed" } else { "the catalogue" };
        vec![what.to_owned(), value, field.to_owned(), from.to_owned()]
    });
    ReportTable { header: vec!["what", "value", "field of [prices]", "from"], rows: rows.collect() }
}

fn figure_of(value: Option<f64>) -> Option<String> {
    value.map(short)
}

fn costs(layout: &Layout, currency: &str) -> ReportTable {
    let header = vec!["what", "amount"];
    let Some(price) = layout.price else { return ReportTable::default() };
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
    if let Some(per_tb) = price.per_asked_tb {
        add("purchase for each TB asked for", Some(Money::of_base(per_tb)));
    }
    if let Some(per_operation) = price.per_operation {
        add("purchase for each operation a second", Some(Money::of_base(per_operation)));
    }
    ReportTable { header, rows }
}

fn left_out(document: Document, plan: &DemandPlan) -> Document {
    let reasons = plan.rejected.iter().map(|rejected| {
        let (node, protection, reason) = (&rejected.node, rejected.protection, &rejected.reason);
        format!("{node}, {protection}: {reason}")
    });
    document.notes("Left out", reasons.collect())
}
