//! Goal: plans follow from demand, policy and catalogue, and name what bounds them. Method: the sources' own clusters,
//! demands that each bind in another way, and random demands that grow.

use proptest::prelude::*;
use varve_tool_plan::catalogue::{Catalogue, Class};
use varve_tool_plan::rebuild::Recovery;
use varve_tool_plan::{
    Amount, Assessment, ByteRate, Bytes, Choice, Comparison, Demand, DemandPlan, DemandPolicy,
    FailureDomain, GivenCluster, Layout, OpRate, Protection, Rank, Seconds, Share, parse, report,
};

const EC_4_2: Protection = Protection::Erasure { data: 4, parity: 2 };

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() <= 0.005, "{value} is not within 0.5 % of {expected}");
}

fn tb(value: f64) -> Bytes {
    Bytes::of_base(value * 1e12)
}

fn only(node: &str) -> Choice {
    Choice { nodes: vec![node.to_owned()], rank: Rank::Cost }
}

fn under(protection: Protection) -> DemandPolicy {
    DemandPolicy {
        protections: vec![protection],
        fill: Share::of_base(1.0),
        ..DemandPolicy::default()
    }
}

#[track_caller]
fn layout(node: &str, demand: Demand, policy: DemandPolicy) -> Layout {
    let plan = DemandPlan::search(&Catalogue::built_in(), demand, policy, &only(node))
        .expect("makes sense");
    plan.layouts.into_iter().next().unwrap_or_else(|| panic!("{:?}", plan.rejected))
}

fn rejection(node: &str, demand: Demand, policy: DemandPolicy) -> String {
    let plan = DemandPlan::search(&Catalogue::built_in(), demand, policy, &only(node))
        .expect("makes sense");
    assert!(plan.layouts.is_empty());
    plan.rejected[0].reason.clone()
}

fn hold(terabytes: f64) -> Demand {
    Demand { class: Class::Capacity, usable_bytes: tb(terabytes), ..Demand::default() }
}

fn operations(rate: f64, reads: f64) -> Demand {
    let (operations_per_second, read_share) = (OpRate::of_base(rate), Share::of_base(reads));
    // Short bursts: what is written on a day wears nothing.
    let written_per_day_bytes = Some(Bytes::ZERO);
    Demand { operations_per_second, read_share, written_per_day_bytes, ..Demand::default() }
}

#[test]
fn each_class_has_its_least_nodes_and_names_the_rule() {
    for (class, least) in [(Class::Iops, 10), (Class::Bandwidth, 10), (Class::Capacity, 7)] {
        let demand = Demand { class, ..hold(1.0) };
        let layout = layout("intel-better", demand, under(Protection::Copies(3)));
        assert_eq!((layout.nodes, layout.binding), (least, "share of a node"));
    }
}

#[test]
fn capacity_binds_by_whole_nodes() {
    // 760 TB of HDD nodes that hold 48 TB each: 15.8.
    let hdd = layout("hdd-nvme", hold(760.0), under(Protection::Copies(3)));
    assert_eq!((hdd.nodes, hdd.binding), (16, "capacity"));
    near(hdd.terms[0].nodes.exact, 15.83);
    // 60 % full takes more.
    let fuller = DemandPolicy { fill: Share::of_base(0.6), ..under(Protection::Copies(3)) };
    assert_eq!(layout("hdd-nvme", hold(760.0), fuller).nodes, 27);
    // Growth of 10 % for five years: 1.61 times.
    let growing = Demand { growth_per_year: Share::of_base(0.1), ..hold(760.0) };
    assert_eq!(layout("hdd-nvme", growing, under(Protection::Copies(3))).nodes, 26);
    // Reduction by half.
    let reduced = DemandPolicy { reduction_ratio: 2.0, ..under(Protection::Copies(3)) };
    assert_eq!(layout("hdd-nvme", hold(760.0), reduced.clone()).nodes, 8);
    // But not of private copies.
    let private = DemandPolicy { private_copy: true, ..reduced };
    let private = layout("hdd-nvme", hold(760.0), private);
    assert_eq!(private.nodes, 16);
    assert!(
        private.risks.iter().any(|risk| risk.starts_with("private copies")),
        "{:?}",
        private.risks
    );
}

#[test]
fn streams_bind_by_what_was_measured() {
    // 52,540 MB/s of HDD nodes that read 763.75 each: 68.8, and the source prints 68 (erratum X01).
    let read = Demand { read_bytes_per_second: parse("52540MB/s").unwrap(), ..hold(0.0) };
    let plan = layout("hdd-nvme", read.clone(), under(Protection::Copies(3)));
    assert_eq!((plan.nodes, plan.binding), (69, "reading"));
    let write = Demand { write_bytes_per_second: parse("25800MB/s").unwrap(), ..hold(0.0) };
    let plan = layout("hdd-nvme", write, under(EC_4_2));
    assert_eq!((plan.nodes, plan.binding), (161, "writing"));
    // Six of the other nodes do both.
    let narrower = Protection::Erasure { data: 4, parity: 1 };
    let few = DemandPolicy { node_share_max: Some(parse("20%").unwrap()), ..under(narrower) };
    let plan = layout("micron-6500ion", read, few);
    assert_eq!((plan.nodes, plan.binding), (6, "reading"));
}

#[test]
fn operations_bind_by_what_was_measured() {
    let policy = || under(Protection::Copies(2));
    // 216,000 reads of a node.
    let reads = layout("idf16", operations(4.32e6, 1.0), policy());
    assert_eq!((reads.nodes, reads.binding), (20, "operations"));
    near(reads.reach.operations_per_second.unwrap().base(), 4.32e6);
    // 144,000 writes of five nodes, two copies each journalled: 28,800 of a node.
    let writes = layout("idf16", operations(576e3, 0.0), policy());
    assert_eq!(writes.nodes, 20);
    // Half of both: 10 + 10.
    let mixed = layout("idf16", operations(2.16e6 + 288e3, 2.16 / 2.448), policy());
    assert_eq!(mixed.nodes, 20);
    near(mixed.reach.operations_per_second.unwrap().base(), 2.448e6);
    // Three copies write half as much again: 10 + 15.
    let three =
        layout("idf16", operations(2.16e6 + 288e3, 2.16 / 2.448), under(Protection::Copies(3)));
    assert_eq!(three.nodes, 25);
    // At 8 KiB 100,000 reads of a node were measured, and taken, not half of the 4 KiB figure.
    let larger = Demand { block_bytes: parse("8KiB").unwrap(), ..operations(2e6, 1.0) };
    assert_eq!(layout("idf16", larger, policy()).nodes, 20);
    // At 32 KiB nothing was: the 16 KiB figure's bytes.
    let larger = Demand { block_bytes: parse("32KiB").unwrap(), ..operations(600e3, 1.0) };
    assert_eq!(layout("idf16", larger, policy()).nodes, 20);
}

#[test]
fn what_users_measured_counts_before_what_sources_print() {
    let own = |cluster: &str, reads: &str| {
        let mut catalogue = Catalogue::built_in();
        let lab = "[[cluster]]\nname = \"lab\"\nnode = \"idf16\"\nnodes = 5\nprotection = \"2\"\n";
        let row = format!(
            "[[measured]]\ncluster = \"{cluster}\"\nblock = \"4KiB\"\nread_share = \"100%\"\n\
             operations = \"{reads}\"\nsource = \"ours\"\n"
        );
        catalogue.add("lab.toml", &format!("{lab}{row}")).unwrap();
        catalogue
    };
    let plan = |catalogue: &Catalogue| {
        let policy = under(Protection::Copies(2));
        let plan = DemandPlan::search(catalogue, operations(4.32e6, 1.0), policy, &only("idf16"));
        let layout = plan.unwrap().layouts.remove(0);
        let is_ours = layout.supply.basis.contains(&"measured: ours".to_owned());
        (layout.nodes, is_ours)
    };
    assert_eq!(plan(&Catalogue::built_in()), (20, false));
    // Half of what the source has of the same cluster, and of another one of the same nodes.
    assert_eq!(plan(&own("idf16", "540k")), (40, true));
    assert_eq!(plan(&own("lab", "540k")), (40, true));
    assert_eq!(plan(&own("lab", "2.16M")), (10, true));
    // A later file counts before an earlier one.
    let mut later = own("idf16", "2.16M");
    let row = "[[measured]]\ncluster = \"lab\"\nblock = \"4KiB\"\nread_share = \"100%\"\noperations = \"270k\"\n";
    later.add("later.toml", row).unwrap();
    assert_eq!(plan(&later), (80, false));
}

#[test]
fn machines_are_operations() {
    let by_machines =
        Demand { machines: 43_200, read_share: Share::of_base(1.0), ..Demand::default() };
    let by_rate = layout("idf16", operations(4.32e6, 1.0), under(Protection::Copies(2)));
    assert_eq!(layout("idf16", by_machines, under(Protection::Copies(2))).nodes, by_rate.nodes);
}

#[test]
fn the_network_binds_copies_too() {
    // 5 GB/s by ports of 1.25.
    let demand = Demand { read_bytes_per_second: parse("5GB/s").unwrap(), ..hold(1.0) };
    let plan = layout("object-uc4", demand, under(Protection::Copies(3)));
    let network = plan.terms.iter().find(|term| term.what == "network").unwrap();
    near(network.nodes.exact, 4.0);
    // Each written byte is sent twice more, and received thrice: 3 × 1.25 GB/s of one port's 1.25.
    let demand = Demand { write_bytes_per_second: parse("1.25GB/s").unwrap(), ..hold(1.0) };
    let plan = layout("object-uc4", demand, under(Protection::Copies(3)));
    let network = plan.terms.iter().find(|term| term.what == "network").unwrap();
    near(network.nodes.exact, 3.0);
    // A code of 4+2 gathers three quarters of what it reads: 5 × 1.75 ÷ 1.25.
    let demand = Demand { read_bytes_per_second: parse("5GB/s").unwrap(), ..hold(1.0) };
    let plan = layout("object-uc4", demand, under(EC_4_2));
    let network = plan.terms.iter().find(|term| term.what == "network").unwrap();
    near(network.nodes.exact, 7.0);
}

#[test]
fn viewers_are_a_rate() {
    let demand = Demand { class: Class::Bandwidth, readers: 600, ..Demand::default() };
    near(demand.read_stream().mb_per_second(), 270.6);
    let slower = Demand { segment_seconds: Seconds::of_base(14.0), ..demand };
    near(slower.read_stream().mb_per_second(), 154.6);
    assert_eq!(slower.write_stream(), ByteRate::ZERO);
}

#[test]
fn endurance_binds_drives_for_reading() {
    // 12 drives of 0.3 × 1.6 TB a day, by 8 TB a day in three copies: 24 ÷ (4 × 0.48) = 12.5 nodes for five years.
    let demand = Demand { written_per_day_bytes: Some(tb(8.0)), ..hold(1.0) };
    let plan = layout("intel-better", demand.clone(), under(Protection::Copies(3)));
    assert_eq!((plan.nodes, plan.binding), (13, "endurance"));
    near(plan.drive_life_years.unwrap(), 5.0 * 13.0 / 12.5);
    // Drives of ten writes a day do not mind.
    let plan = layout("intel-best", demand, under(Protection::Copies(3)));
    assert_ne!(plan.binding, "endurance");
    assert!(plan.drive_life_years.unwrap() > 50.0);
}

#[test]
fn wide_codes_need_as_many_nodes_or_drives() {
    let wide = Protection::Erasure { data: 10, parity: 4 };
    let plan = layout("micron-6500ion", hold(1.0), under(wide));
    assert_eq!((plan.nodes, plan.binding), (14, "protection"));
    let policy = DemandPolicy { failure_domain: FailureDomain::Drive, ..under(wide) };
    let plan = layout("micron-6500ion", hold(1.0), policy);
    assert_eq!((plan.nodes, plan.binding), (7, "share of a node"));
}

#[test]
fn what_is_not_known_is_not_made_up() {
    let reason = rejection("intel-good", operations(1e5, 0.5), under(Protection::Copies(3)));
    assert_eq!(
        reason,
        "reading blocks of this size by intel-good is not known: add a [[measured]] of a cluster of it, \
         or `reads` of [[drive]] hdd-4tb"
    );
    // 4 MB figures say nothing of 4 KiB operations.
    assert!(
        rejection("micron-6500ion", operations(1e5, 1.0), under(EC_4_2)).contains("is not known")
    );
    let reason = rejection("hdd-nvme", hold(1.0), under(Protection::Copies(2)));
    assert!(reason.contains("two copies are for flash"), "{reason}");
    assert!(
        layout("sql-uc3", hold(1.0), under(Protection::Copies(2)))
            .risks
            .iter()
            .any(|risk| risk.contains("table 2"))
    );
    let unpriced = layout("idf16", hold(1.0), under(Protection::Copies(3)));
    assert_eq!(unpriced.price, None);
    assert!(
        unpriced.risks.iter().any(|risk| risk.starts_with("no price of idf16")),
        "{:?}",
        unpriced.risks
    );
}

#[test]
fn latency_is_held_against_what_was_measured() {
    let bound =
        |ms| Demand { latency_seconds: Some(Seconds::of_base(ms / 1e3)), ..operations(1e6, 1.0) };
    let shown =
        |ms| layout("sql-uc3", bound(ms), under(Protection::Copies(2))).supply.latency_shown;
    assert_eq!((shown(1.0), shown(0.5)), (Some(true), Some(false)));
    // Blocks of 128 KiB have no latency, and say nothing of 4 KiB: the reads measured at 3.5 ms are used, and told to
    // be late.
    assert_eq!(
        layout("idf16", bound(3.0), under(Protection::Copies(2))).supply.latency_shown,
        Some(false)
    );
    let plan = layout("sql-uc3", bound(0.5), under(Protection::Copies(2)));
    assert!(
        plan.risks.iter().any(|risk| risk.contains("more than the 500 µs asked for")),
        "{:?}",
        plan.risks
    );
}

#[test]
fn what_holds_the_latency_comes_before_what_is_late() {
    let bound = |ms, reads| Demand {
        latency_seconds: Some(Seconds::of_base(ms / 1e3)),
        usable_bytes: tb(100.0),
        ..operations(50e3, reads)
    };
    let search = |demand| {
        let policy = DemandPolicy { protections: vec![EC_4_2], ..DemandPolicy::default() };
        DemandPlan::search(&Catalogue::built_in(), demand, policy, &Choice::default()).unwrap()
    };
    let place = |plan: &DemandPlan, node: &str| {
        plan.layouts.iter().position(|layout| layout.node == node).unwrap()
    };
    let shown =
        |plan: &DemandPlan, node: &str| plan.layouts[place(plan, node)].supply.latency_shown;
    // Reads of flash were measured at 1 ms, and disks have to seek; more of them do not help.
    let plan = search(bound(1.0, 1.0));
    assert_eq!(plan.layouts[0].node, "sql-uc3");
    assert_eq!((shown(&plan, "sql-uc3"), shown(&plan, "vdi-uc1")), (Some(true), Some(false)));
    let disks = &plan.layouts[place(&plan, "vdi-uc1")];
    assert!(disks.risks.iter().any(|risk| risk.contains("seek for longer than the 1 ms")));
    assert!(plan.best_by_each.iter().all(|best| !best.is_late));
    // Writes were measured at 3 ms: late as well, and no more disks than that are called the fewest nodes.
    let plan = search(bound(1.0, 0.7));
    assert_eq!(shown(&plan, "sql-uc3"), Some(false));
    assert_eq!(plan.layouts[0].node, "sql-uc3");
    let fewest = plan.layouts.iter().map(|layout| layout.nodes).min();
    let by_nodes = plan.best_by_each.iter().find(|best| best.figure == Rank::Nodes);
    assert!(by_nodes.map(|best| best.nodes) <= fewest);
    // Above a seek nothing is known of disks that were not measured; writes of IDF16 have no latency.
    let plan = search(bound(20.0, 0.7));
    assert_eq!((shown(&plan, "vdi-uc1"), shown(&plan, "idf16")), (None, None));
    assert_eq!(shown(&plan, "sql-uc3"), Some(true));
    assert!(place(&plan, "sql-uc3") < place(&plan, "vdi-uc1"));
}

#[test]
fn fewer_nodes_than_parts_of_the_data_are_a_risk() {
    let risks = |nodes, protection: &str, failure_domain| {
        let policy = DemandPolicy { failure_domain, ..DemandPolicy::default() };
        let (node, protection) = ("micron-6500ion".to_owned(), protection.parse().unwrap());
        let given = GivenCluster { node, nodes, drives: None, protection };
        DemandPlan::evaluate(&Catalogue::built_in(), &given, &policy).unwrap().risks
    };
    let (nodes, drives) = (FailureDomain::Node, FailureDomain::Drive);
    for (risks, expected) in [
        (risks(1, "10+4", nodes), "14 drives are needed for EC 10+4, and there are 6"),
        (
            risks(3, "4+2", nodes),
            "6 nodes are needed for EC 4+2, and there are 3: a node holds 2 of the parts",
        ),
        (
            risks(3, "10+4", nodes),
            "14 nodes are needed for EC 10+4, and there are 3: a node holds 5 of the parts, and its loss loses data",
        ),
        (
            risks(2, "3", nodes),
            "3 nodes are needed for 3 copies, and there are 2: a node holds 2 of the parts",
        ),
    ] {
        assert!(risks.iter().any(|risk| risk == expected), "{expected}\n{risks:?}");
    }
    for risks in [risks(7, "4+2", nodes), risks(3, "4+2", drives), risks(1, "1", nodes)] {
        assert!(!risks.iter().any(|risk| risk.contains(" are needed for ")), "{risks:?}");
    }
}

#[test]
fn what_is_not_counted_of_a_cost_is_told() {
    let mut catalogue = Catalogue::built_in();
    let node = "[[node]]\nname = \"box\"\ndrive = \"micron-6500-ion\"\ndrives = 6\nports = 1\nspeed = \"200Gbit/s\"\nprice = 5927\n";
    let told = |catalogue: &Catalogue| {
        let plan =
            DemandPlan::search(catalogue, hold(500.0), under(Protection::Copies(3)), &only("box"));
        let plan = plan.unwrap();
        let text = report::of_plan(&plan).text();
        let rack = text.lines().find(|line| line.starts_with("rack ")).unwrap().to_owned();
        let risk = "rack is not counted: box has no rack_units".to_owned();
        (plan.layouts[0].risks.contains(&risk), rack.ends_with('–'))
    };
    catalogue.add("box.toml", node).unwrap();
    assert_eq!(told(&catalogue), (true, true));
    catalogue.add("known.toml", &format!("{node}rack_units = 1\n")).unwrap();
    let plan =
        DemandPlan::search(&catalogue, hold(500.0), under(Protection::Copies(3)), &only("box"));
    assert!(!plan.unwrap().layouts[0].risks.iter().any(|risk| risk.starts_with("rack ")));
}

#[test]
fn reads_take_the_power_of_reading() {
    let node = "micron-6500ion".to_owned();
    let given = GivenCluster { node, nodes: 3, drives: None, protection: EC_4_2 };
    let layout =
        DemandPlan::evaluate(&Catalogue::built_in(), &given, &DemandPolicy::default()).unwrap();
    let power = layout.power.unwrap();
    // As `plan compare` has it: 10.1 W a drive while it reads, 10.6 W while it writes.
    near(power.joules_per_gb_read.unwrap(), 6.92);
    near(power.joules_per_gb_written.unwrap(), 14.79);
    near(power.total_watts.base(), 10.6 * 18.0);
    // A journal that waits takes what it takes when idle.
    let mut catalogue = Catalogue::built_in();
    let own = "[[drive]]\nname = \"card\"\nmedia = \"nvme\"\ncapacity = \"1TB\"\npower_idle = \"2W\"\npower_write = \"8W\"\n\
               [[node]]\nname = \"box\"\ndrive = \"micron-6500-ion\"\ndrives = 4\njournal_drive = \"card\"\njournal_drives = 1\n\
               ports = 1\nspeed = \"200Gbit/s\"\npower = \"100W\"\n";
    catalogue.add("box.toml", own).unwrap();
    let node = "box".to_owned();
    let given = GivenCluster { node, nodes: 1, drives: None, protection: Protection::Copies(1) };
    let power =
        DemandPlan::evaluate(&catalogue, &given, &DemandPolicy::default()).unwrap().power.unwrap();
    near(power.total_watts.base(), 4.0 * 10.6 + 8.0 + 100.0);
    // 4 × 1.5 GB/s, and 4 × 1.2 GB/s.
    near(power.joules_per_gb_read.unwrap(), (4.0 * 10.1 + 2.0 + 100.0) / 6.0);
    near(power.joules_per_gb_written.unwrap(), (4.0 * 10.6 + 8.0 + 100.0) / 4.8);
}

#[test]
fn too_small_a_cache_and_journals_of_unknown_rate_are_risks() {
    let mut catalogue = Catalogue::built_in();
    let box_of = |rate: &str| {
        format!(
            "[[drive]]\nname = \"card\"\nmedia = \"nvme\"\ncapacity = \"4TB\"\npower_loss_protection = true\n{rate}\
             [[node]]\nname = \"box\"\ndrive = \"hdd-12tb\"\ndrives = 12\njournal_drive = \"card\"\njournal_drives = 1\n\
             ports = 1\nspeed = \"10Gbit/s\"\n"
        )
    };
    let risks = |catalogue: &Catalogue, node: &str| {
        let (node, protection) = (node.to_owned(), Protection::Copies(3));
        let given = GivenCluster { node, nodes: 10, drives: None, protection };
        DemandPlan::evaluate(catalogue, &given, &DemandPolicy::default()).unwrap().risks.join("\n")
    };
    // A card of 1.6 TB, with 12 journals of 1 GB, for 144 TB.
    let card = risks(&catalogue, "hdd-nvme");
    let small = "metadata want a cache of 2.88 TB a node, and there is room for 1.588 TB";
    assert!(card.contains(small), "{card}");
    assert!(card.contains("whether aic-1600 writes as fast as the drives behind it"), "{card}");
    // 1.5 TB for 80 TB (erratum X28), and two SSDs of 200 GB with 10 journals of 20 GB for 10 TB.
    let yahoo = risks(&catalogue, "yahoo-uc7");
    assert!(yahoo.contains("1.6 TB a node, and there is room for 1.5 TB"), "{yahoo}");
    assert!(!risks(&catalogue, "vdi-uc1").contains("metadata want"));
    // Flash needs none.
    assert!(!risks(&catalogue, "idf16").contains("metadata want"));
    for (rate, expected) in [
        ("write_rate = \"2GB/s\"\n", None),
        (
            "write_rate = \"1GB/s\"\n",
            Some("journals take 1,000 MB/s, and the drives behind them 1,200 MB/s"),
        ),
    ] {
        catalogue.add("box.toml", &box_of(rate)).unwrap();
        let risks = risks(&catalogue, "box");
        assert!(!risks.contains("metadata want"), "{risks}");
        assert!(!risks.contains("writes as fast as"), "{risks}");
        assert_eq!(risks.contains("journals take"), expected.is_some(), "{risks}");
        assert!(expected.is_none_or(|expected| risks.contains(expected)), "{risks}");
    }
}

#[test]
fn costs_add_up() {
    let demand = Demand { write_bytes_per_second: parse("43GB/s").unwrap(), ..hold(0.0) };
    let plan = layout("micron-6500ion", demand, under(EC_4_2));
    assert_eq!(plan.nodes, 10);
    let price = plan.price.unwrap();
    near(price.ownership.purchase.base(), 10.0 * 17_927.0);
    near(price.per_usable_tb, 17_927.0 / 128.0);
    // 636 W for five years with half as much again for cooling, at 0.15 a kWh.
    near(price.ownership.power.base(), 0.636 * 1.5 * 24.0 * 365.0 * 5.0 * 0.15);
    near(price.ownership.rack.base(), 10.0 * 300.0 * 5.0);
    near(price.ownership.replacement.base(), 10.0 * 12_000.0 * 0.02 * 5.0);
    let parts = price.ownership;
    near(
        parts.total.base(),
        (parts.purchase + parts.power + parts.rack + parts.replacement).base(),
    );
    let power = plan.power.unwrap();
    near(power.joules_per_gb_written.unwrap(), 14.79);
    near(power.job_joules.unwrap(), 14.79 * 1000.0);
    // All drives take a part: 60 TB-drives filled as far as is allowed, since no data are asked for; at half of 1.2
    // GB/s each they would outrun the network.
    let (drive, node) = (plan.rebuild.drive, plan.rebuild.node);
    assert_eq!((drive.recovery, drive.receivers), (Recovery::Spread, 59));
    assert_eq!((node.recovery, node.receivers), (Recovery::Replacement, 6));
    near(plan.rebuild.filled.base(), 1.0);
    near(drive.seconds.unwrap().base(), 32e12 / (10.0 * 3.125e9)); // What the network of ten nodes carries.
    near(node.seconds.unwrap().base(), 192e12 / 3.125e9); // What the network of the new node carries.
}

#[test]
fn more_drives_are_tried_and_the_cheapest_wins() {
    let plan = layout("sql-uc3", hold(27.0), under(Protection::Copies(3)));
    // 27 TB in three copies on drives of 0.8 TB: 101.25; with 10 of them in each of 11 nodes rather than 4 in 26.
    assert_eq!((plan.drives_per_node, plan.nodes), (10, 11));
    assert_eq!(plan.osds, 11 * 40);
}

#[test]
fn alternatives_are_ranked_by_any_figure() {
    let choice =
        |rank| Choice { nodes: vec!["hdd-nvme".to_owned(), "micron-6500ion".to_owned()], rank };
    let policy = DemandPolicy {
        protections: vec![Protection::Copies(3), EC_4_2],
        ..DemandPolicy::default()
    };
    for (rank, name) in Rank::ALL {
        let plan =
            DemandPlan::search(&Catalogue::built_in(), hold(2000.0), policy.clone(), &choice(rank))
                .unwrap();
        assert_eq!(plan.layouts.len(), 4, "{name}");
        let figures: Vec<f64> = plan
            .layouts
            .iter()
            .map(|layout| rank.figure(layout).unwrap_or(f64::INFINITY))
            .collect();
        assert!(figures.is_sorted(), "{name}: {figures:?}");
        assert!(
            plan.best_by_each.iter().any(
                |best| best.figure == rank && Some(best.value) == rank.figure(&plan.layouts[0])
            ) || rank == Rank::PerOperation
        );
    }
}

#[test]
fn demands_without_meaning_are_refused() {
    let search = |demand, policy| {
        DemandPlan::search(&Catalogue::built_in(), demand, policy, &Choice::default())
    };
    let nothing = search(hold(0.0), DemandPolicy::default()).unwrap_err().to_string();
    assert_eq!(nothing, "the demand in bytes and operations is 0, and must be above 0");
    let at_once = Demand { latency_seconds: Some(Seconds::ZERO), ..hold(1.0) };
    let at_once = search(at_once, DemandPolicy::default()).unwrap_err().to_string();
    assert_eq!(at_once, "the bound on latency in seconds is 0, and must be above 0");
    let full = DemandPolicy { fill: Share::of_base(1.2), ..DemandPolicy::default() };
    assert!(search(hold(1.0), full).unwrap_err().to_string().starts_with("the fill is 1.2"));
    for write_amplification in [0.5, 0.0, f64::NAN, f64::INFINITY, 1e308] {
        let policy = DemandPolicy { write_amplification, ..DemandPolicy::default() };
        let refused = search(hold(1.0), policy).unwrap_err().to_string();
        assert!(refused.ends_with("and must be 1 to 1000"), "{refused}");
    }
    // What the demand is computed from is checked before it.
    let segment_seconds = Seconds::ZERO;
    let timeless = Demand { readers: 600, segment_seconds, ..Demand::default() };
    let timeless = search(timeless, DemandPolicy::default()).unwrap_err().to_string();
    assert_eq!(timeless, "the time of a segment in seconds is 0, and must be above 0");
    let unknown = DemandPlan::search(
        &Catalogue::built_in(),
        hold(1.0),
        DemandPolicy::default(),
        &only("nope"),
    );
    assert!(unknown.unwrap_err().to_string().starts_with("unknown node `nope`; known: "));
    let absurd = DemandPlan::search(
        &Catalogue::built_in(),
        hold(1e12),
        DemandPolicy::default(),
        &only("idf16"),
    )
    .unwrap();
    assert!(absurd.rejected[0].reason.contains("at most 1,000,000"));
}

#[test]
fn the_sources_clusters_stand_as_they_say() {
    let catalogue = Catalogue::built_in();
    let standing = |name| Assessment::of(&catalogue, name).unwrap();
    let vdi = standing("vdi-uc1");
    assert_eq!((vdi.osds, vdi.placement_groups.count), (40, 2048));
    // Erratum X10: two SSDs of five partitions, not three of 3, 3 and 4.
    assert_eq!(vdi.journals_on_each_drive, [5, 5]);
    assert!(vdi.errata.contains(&"X10".to_owned()));
    near(vdi.findings[0].operations_per_osd.base(), 112.5);
    assert_eq!((vdi.findings[0].machines, vdi.findings[1].machines), (45, 33));
    let sql = standing("sql-uc3");
    assert_eq!(sql.osds, 80);
    near(sql.raw_bytes.tb(), 16.0);
    near(sql.usable_bytes.tb(), 8.0);
    near(sql.filled.unwrap().base(), 0.60);
    near(sql.findings[0].in_flight.unwrap(), 1150.0);
    let object = standing("object-uc4");
    assert_eq!(object.limits[0].what, "network of the gateways");
    near(object.limits[0].bytes_per_second.mb_per_second(), 1250.0);
    let yahoo = standing("yahoo-uc7");
    near(yahoo.raw_bytes.tb(), 640.0);
    near(yahoo.usable_bytes.tb(), 465.5);
    near(yahoo.cache_share.unwrap().base(), 0.01875);
    assert!(yahoo.warnings.iter().any(|warning| warning.starts_with("2 monitors")));
    let idf16 = standing("idf16");
    assert_eq!(idf16.osds, 40);
    near(idf16.findings[0].operations_per_node.base(), 216e3);
    near(idf16.findings[0].links_used.base(), 4.42 / 12.5);
    for (name, nodes) in [("idf16", 5), ("vdi-uc1", 4), ("object-uc4", 4)] {
        let share = format!("a node is {}", Share::of_base(1.0 / f64::from(nodes)));
        assert!(
            standing(name).warnings[0].starts_with(&share),
            "X22: {:?}",
            standing(name).warnings
        );
    }
}

#[test]
fn the_ratio_of_journals_is_a_parameter() {
    let mut catalogue = Catalogue::built_in();
    let wide = "[[cluster]]\nname = \"sixteen\"\nnode = \"intel-good\"\nnodes = 10\ndrives = 16\nprotection = \"3\"\n";
    catalogue.add("wide.toml", wide).unwrap();
    let standing = Assessment::of(&catalogue, "sixteen").unwrap();
    assert_eq!(standing.warnings, ["16 OSDs on 1 journal drives; by its ratio 2 are needed"]);
    assert!(standing.errata.contains(&"X10".to_owned()));
}

#[test]
fn the_source_s_comparison_comes_out() {
    let catalogue = Catalogue::built_in();
    let comparison = Comparison::of(&catalogue, "hdd-nvme", "micron-6500ion").unwrap();
    near(comparison.multipliers[0], 1.5);
    near(comparison.multipliers[1], 1.27);
    for (what, first, second, gain) in [
        ("read MB/s, normalised", 4582.5, 52_540.0, 11.465),
        ("write MB/s, normalised", 963.93, 25_800.0, 26.766),
        ("read latency, ms", 290.0, 35.0, 8.286),
        ("write latency, ms", 1760.0, 48.0, 36.67),
        ("read MB/s for each usable TB, normalised", 15.91, 68.4, 4.30),
        ("write MB/s for each usable TB, normalised", 3.347, 33.6, 10.04),
        ("write MB/s for each usable TB, normalised, 760 TB", 3.347, 33.93, 10.14),
        ("write MB/s for each usable TB, normalised for nodes alone, 760 TB", 2.635, 33.93, 12.88),
        ("W of drives", 348.0, 381.6, 348.0 / 381.6),
        ("W for each raw TB", 0.604, 0.331, 1.824),
        ("W for each usable TB", 1.8125, 0.497, 3.648),
        ("J/GB read, measured", 113.9, 6.92, 16.46),
        ("J/GB written, measured", 687.7, 14.79, 46.5),
        ("J/GB written, normalised", 541.5, 14.79, 36.6),
        ("price of a node", 6640.0, 17_927.0, 1.0 / 2.70),
        ("price of a raw TB", 46.11, 93.37, 1.0 / 2.025),
        ("price of a usable TB", 138.3, 140.05, 1.0 / 1.0125),
    ] {
        let figure = comparison.figures.iter().find(|figure| figure.what == what).unwrap();
        near(figure.first, first);
        near(figure.second, second);
        near(figure.gain, gain);
    }
    let counts: Vec<u64> = comparison.parity.iter().map(|parity| parity.nodes.count).collect();
    // 768 TB, not the source's 760, are exactly 16 nodes (erratum X05); 69, not 68 (erratum X01).
    assert_eq!(counts, [16, 69, 161]);
    assert_eq!(comparison.parity[1].errata, ["X01"]);
    // (138.3 × 128 − 5927) ÷ 6.
    near(comparison.break_even_drive.unwrap().base(), 1963.3);
    let alone = Comparison::of(&catalogue, "hdd-nvme", "yahoo-uc7").unwrap_err().to_string();
    assert!(alone.contains("yahoo-uc7 cannot be compared: add [[measured]]"), "{alone}");
}

#[test]
fn clusters_are_compared_at_a_block_of_both_without_others_faults() {
    let mut catalogue = Catalogue::built_in();
    let comparison = Comparison::of(&catalogue, "sql-uc3", "idf16").unwrap();
    // 4 KiB were measured on both; 128 KiB, the largest block, on one alone.
    let block: Bytes = parse("4KiB").unwrap();
    assert_eq!(comparison.read_block_bytes, [block; 2]);
    assert_eq!(comparison.write_block_bytes, [block; 2]);
    let read = comparison.figures.iter().find(|figure| figure.what == "read MB/s, measured");
    near(read.unwrap().gain, 1.08 / 1.15);
    assert!(comparison.warnings.is_empty(), "{:?}", comparison.warnings);
    // Micron's faults are not those of Intel's clusters, whose own are named.
    let cited = comparison.figures.iter().map(|figure| figure.errata.len()).sum::<usize>()
        + comparison.parity.iter().map(|parity| parity.errata.len()).sum::<usize>();
    assert_eq!(cited, 0);
    assert_eq!(comparison.errata, ["X14", "X16", "X18", "X22"]);
    // Two copies and two: nothing to make of the protection.
    assert_eq!(comparison.multipliers, [1.0, 1.0]);

    let apart = Comparison::of(&catalogue, "hdd-nvme", "idf16").unwrap();
    assert_eq!(apart.read_block_bytes, [parse::<Bytes>("4MB").unwrap(), parse("128KiB").unwrap()]);
    assert_eq!(
        apart.warnings[0],
        "reads of 4 MB and of 128 KiB are compared: no block was measured on both"
    );
    assert_eq!(apart.warnings.len(), 2);
    let text = report::of_comparison(&apart).text();
    assert!(text.contains("4 MB of the first, 128 KiB of the second"), "{text}");

    // Another code is not 4+2: by the bytes it writes 1.5 of 1.375 as fast.
    let wide = "[[cluster]]\nname = \"wide\"\nnode = \"micron-6500ion\"\nnodes = 6\nprotection = \"8+3\"\n";
    let row = |reads, rate| {
        format!(
            "[[measured]]\ncluster = \"wide\"\nblock = \"4MB\"\nread_share = \"{reads}%\"\nrate = \"{rate}MB/s\"\n"
        )
    };
    let file = format!("{wide}{}{}", row(100, 40_000), row(0, 20_000));
    catalogue.add("wide.toml", &file).unwrap();
    let wide = Comparison::of(&catalogue, "hdd-nvme", "wide").unwrap();
    near(wide.multipliers[1], 1.27 * 1.5 / 1.375);
    assert!(
        wide.warnings[0].contains("that of 3 copies and EC 8+3 follows"),
        "{:?}",
        wide.warnings
    );
    assert!(wide.figures.iter().all(|figure| figure.errata.is_empty()));
    assert!(!wide.figures.iter().any(|figure| figure.what.contains("760")));
}

#[test]
fn faults_of_a_workload_s_source_are_cited() {
    let catalogue = Catalogue::built_in();
    let cited = |name: &str| {
        let demand = Demand { usable_bytes: tb(100.0), ..Demand::of(&catalogue.workloads[name]) };
        let policy = under(Protection::Copies(3));
        let plan = DemandPlan::search(&catalogue, demand, policy, &only("micron-6500ion")).unwrap();
        report::of_plan(&plan).text()
    };
    assert!(cited("cos-small").contains("1.28 GB, fits in memory"), "{}", cited("cos-small"));
    assert!(!cited("cos-large").contains("fits in memory"));
}

fn nodes_of(catalogue: &Catalogue) -> Vec<String> {
    catalogue.nodes.keys().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn more_demand_never_takes_fewer_nodes(
        terabytes in 0.1..2000.0, more in 1.0..5.0, mbs in 0.0..50_000.0, rate in 0.0..5e6,
        reads in 0.0..1.0, which in 0_usize..6, copies in 2_u32..4,
    ) {
        let catalogue = Catalogue::built_in();
        let base = Demand {
            read_bytes_per_second: ByteRate::of_base(mbs * 1e6),
            write_bytes_per_second: ByteRate::of_base(mbs * 3e5),
            ..Demand { usable_bytes: tb(terabytes), ..operations(rate, reads) }
        };
        let mut grown = base.clone();
        match which {
            0 => grown.usable_bytes = base.usable_bytes * more,
            1 => grown.operations_per_second = base.operations_per_second * more,
            2 => grown.read_bytes_per_second = base.read_bytes_per_second * more,
            3 => grown.write_bytes_per_second = base.write_bytes_per_second * more,
            4 => grown.growth_per_year = Share::of_base(more / 10.0),
            _ => grown.machines = 10_000,
        }
        let policy = under(Protection::Copies(copies));
        for name in nodes_of(&catalogue) {
            // One number of drives, so that like is compared with like.
            let mut one = catalogue.clone();
            let node = one.nodes.get_mut(&name).unwrap();
            node.drives_max = Some(node.drives);
            let search = |demand: &Demand| {
                DemandPlan::search(&one, demand.clone(), policy.clone(), &only(&name)).unwrap().layouts
            };
            let (less, more) = (search(&base), search(&grown));
            if let (Some(less), Some(more)) = (less.first(), more.first()) {
                prop_assert!(less.nodes <= more.nodes, "{}: {} > {}", name, less.nodes, more.nodes);
                for (one, other) in less.terms.iter().zip(&more.terms) {
                    prop_assert!(one.nodes.exact <= other.nodes.exact * (1.0 + 1e-9), "{} {}", name, one.what);
                }
            }
        }
    }

    #[test]
    fn a_layout_meets_what_it_was_made_for(
        terabytes in 0.1..2000.0, mbs in 0.0..50_000.0, fill in 0.3..0.9, data in 1_u32..9, parity in 1_u32..4,
    ) {
        let catalogue = Catalogue::built_in();
        let demand = Demand { read_bytes_per_second: ByteRate::of_base(mbs * 1e6), ..hold(terabytes) };
        let policy = DemandPolicy {
            fill: Share::of_base(fill), ..under(Protection::Erasure { data, parity })
        };
        let plan = DemandPlan::search(&catalogue, demand, policy, &Choice::default()).unwrap();
        prop_assert!(!plan.layouts.is_empty());
        for layout in &plan.layouts {
            prop_assert!(layout.planned_bytes.tb() >= terabytes * (1.0 - 1e-6), "{}", layout.node);
            prop_assert!(layout.filled.base() <= fill * (1.0 + 1e-6));
            prop_assert!(layout.traffic.used.base() <= 1.0 + 1e-6);
            prop_assert!(layout.nodes >= u64::from(data + parity));
            if let Some(reach) = layout.reach.read_bytes_per_second {
                prop_assert!(reach.mb_per_second() >= mbs * (1.0 - 1e-6));
            }
            let most = layout.terms.iter().map(|term| term.nodes.count).max().unwrap();
            prop_assert_eq!(most, layout.nodes);
            prop_assert!(layout.terms.iter().any(|term| term.what == layout.binding));
        }
    }
}
