//! Goal: figures of a plan hold for the cluster as a whole: no more than its network carries, for the data that were
//! asked for, the same whatever is ranked, with all that costs are counted with. Method: a catalogue of fast nodes
//! behind slow links, and of large ones.

use varve_tool_plan::catalogue::{Catalogue, Class};
use varve_tool_plan::{
    Amount, Bytes, Choice, CostBasis, Demand, DemandPlan, DemandPolicy, GivenCluster, OpRate,
    Protection, Rank, Share, parse, report,
};

const EC_4_2: Protection = Protection::Erasure { data: 4, parity: 2 };

#[track_caller]
fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() <= 0.005, "{value} is not within 0.5 % of {expected}");
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

fn hold(terabytes: f64) -> Demand {
    let usable_bytes = Bytes::of_base(terabytes * 1e12);
    Demand { class: Class::Capacity, usable_bytes, ..Demand::default() }
}

/// Ten nodes or more of 24 fast drives behind two ports of 100 Gbit/s.
fn fast_node() -> Catalogue {
    let mut catalogue = Catalogue::built_in();
    let text = "[[drive]]\nname = \"fast\"\nmedia = \"nvme\"\ncapacity = \"3.84TB\"\nreads = \"800k\"\nwrites = \"200k\"\n\
                read_rate = \"6.5GB/s\"\nwrite_rate = \"3.5GB/s\"\npower_read = \"15W\"\npower_write = \"15W\"\nprice = 600\n\
                [[node]]\nname = \"nvme10\"\ndrive = \"fast\"\ndrives = 8\ndrives_max = 24\nports = 2\nspeed = \"100Gbit/s\"\n\
                cores = 64\nrack_units = 2\npower = \"400W\"\nprice = 9000\n\
                [[drive]]\nname = \"disk\"\nmedia = \"hdd\"\ncapacity = \"16TB\"\nread_rate = \"200MB/s\"\nwrite_rate = \"200MB/s\"\n\
                power_read = \"8W\"\nprice = 300\n\
                [[node]]\nname = \"xl60\"\ndrive = \"disk\"\ndrives = 12\ndrives_max = 60\nports = 2\nspeed = \"25Gbit/s\"\n\
                rack_units = 4\npower = \"400W\"\nprice = 9000\n";
    catalogue.add("mine.toml", text).expect("the catalogue is sound");
    catalogue
}

#[test]
fn no_more_is_reached_than_the_network_carries() {
    let catalogue = fast_node();
    let given = |nodes, protection, drives| GivenCluster {
        node: "nvme10".to_owned(),
        nodes,
        drives: Some(drives),
        protection,
    };
    let layout = |nodes, protection, drives| {
        DemandPlan::evaluate(
            &catalogue,
            &given(nodes, protection, drives),
            &DemandPolicy::default(),
        )
        .unwrap()
    };
    // 10 × 2 × 100 Gbit/s are 250 GB/s, and the drives read 1,560.
    let copies = layout(10, Protection::Copies(3), 24);
    near(copies.reach.read_bytes_per_second.unwrap().base(), 250e9);
    // A node receives each write, and two more from others: 250 ÷ 3.
    near(copies.reach.write_bytes_per_second.unwrap().base(), 250e9 / 3.0);
    // Of a code three quarters of what is read, or 5 ÷ 4 of what is written, goes between nodes too.
    let code = layout(10, EC_4_2, 24);
    near(code.reach.read_bytes_per_second.unwrap().base(), 250e9 / 1.75);
    near(code.reach.write_bytes_per_second.unwrap().base(), 250e9 / 2.25);
    assert!(code.reach.bound_by_network.reading && code.reach.bound_by_network.writing);
    let text = report::of_layout(&code, &CostBasis::of(&catalogue.prices)).text();
    assert!(text.contains("142.9 GB/s, bound by the network\n"), "{text}");
    // What takes power, and what it moves, are of the same cluster.
    let power = code.power.unwrap();
    near(power.joules_per_gb_read.unwrap(), power.total_watts.base() / (250.0 / 1.75));
    // Operations too: 384,000 reads a node of 4 KiB are 1.6 GB/s, and of 128 KiB more than its ports carry.
    let operations = |block: &str| {
        let demand = Demand {
            operations_per_second: OpRate::of_base(1e4),
            read_share: Share::of_base(1.0),
            block_bytes: parse(block).unwrap(),
            ..Demand::default()
        };
        let choice = only("nvme10");
        let plan = DemandPlan::search(&catalogue, demand, under(Protection::Copies(3)), &choice);
        let layout = plan.unwrap().layouts.remove(0);
        let rate = layout.reach.operations_per_second.unwrap().base();
        (rate / varve_tool_plan::real(layout.nodes), layout.reach.bound_by_network.operations)
    };
    assert!(!operations("4KiB").1);
    let (rate, is_bound) = operations("128KiB");
    assert!(rate * 131_072.0 <= 25e9 * 1.001, "{rate}");
    assert_eq!(is_bound, rate * 131_072.0 > 24.9e9);
    // Few drives are slower than the ports.
    assert!(!layout(10, Protection::Copies(1), 1).reach.bound_by_network.reading);
}

#[test]
fn capacity_that_nobody_asked_for_is_no_merit() {
    let catalogue = fast_node();
    let nodes = vec!["nvme10".to_owned(), "xl60".to_owned()];
    let code = Protection::Erasure { data: 8, parity: 3 };
    let search = |rank| {
        let choice = Choice { nodes: nodes.clone(), rank };
        DemandPlan::search(&catalogue, hold(100.0), under(code), &choice).unwrap()
    };
    let plan = search(Rank::PerTb);
    let best = &plan.layouts[0];
    let price = best.price.unwrap();
    near(price.per_asked_tb.unwrap(), price.ownership.purchase.base() / 100.0);
    // 100 TB take no 60 drives a node.
    assert_eq!(best.drives_per_node, if best.node == "xl60" { 12 } else { 8 });
    let by_watts = search(Rank::WattsPerTb);
    let watts = by_watts.layouts.iter().map(|layout| layout.power.unwrap().total_watts.base());
    assert!(watts.collect::<Vec<_>>().is_sorted());
    let text = report::of_plan(&plan).text();
    assert!(text.contains("PER TB ASKED FOR"), "{text}");
    // Where no data are asked for, a usable TB counts.
    let streams = Demand { read_bytes_per_second: parse("1GB/s").unwrap(), ..hold(0.0) };
    let plan = DemandPlan::search(&catalogue, streams, under(code), &only("nvme10")).unwrap();
    assert_eq!(plan.layouts[0].price.unwrap().per_asked_tb, None);
    assert_eq!(
        Rank::PerTb.figure(&plan.layouts[0]),
        plan.layouts[0].price.map(|p| p.per_usable_tb)
    );
}

#[test]
fn the_best_by_each_figure_is_the_same_whatever_is_ranked() {
    let catalogue = fast_node();
    let search = |rank| {
        let demand = Demand { class: Class::Iops, ..hold(2000.0) };
        let demand = Demand { operations_per_second: OpRate::of_base(2e5), ..demand };
        let choice = Choice { nodes: vec!["nvme10".to_owned()], rank };
        let narrow = DemandPolicy { fill: Share::of_base(0.6), ..under(EC_4_2) };
        DemandPlan::search(&catalogue, demand, narrow, &choice).unwrap()
    };
    let by_cost = search(Rank::Cost);
    for (rank, _) in Rank::ALL {
        let plan = search(rank);
        assert_eq!(plan.best_by_each, by_cost.best_by_each);
        let best = plan.best_by_each.iter().find(|best| best.figure == rank).unwrap();
        assert_eq!(Some(best.value), rank.figure(&plan.layouts[0]));
    }
}

#[test]
fn capacity_of_the_class_iops_warns_that_no_operations_were_asked_for() {
    let search =
        |demand| DemandPlan::search(&fast_node(), demand, under(EC_4_2), &only("xl60")).unwrap();
    let plan = search(Demand { class: Class::Iops, ..hold(100.0) });
    assert!(plan.warnings[0].starts_with("no operations were asked for"), "{:?}", plan.warnings);
    let text = report::of_plan(&plan).text();
    assert!(text.contains("\nWarnings\n- no operations were asked for"), "{text}");
    let risk = |plan: &DemandPlan| {
        plan.layouts[0].risks.iter().any(|risk| risk.starts_with("spinning disks in"))
    };
    assert!(risk(&plan));
    let plan = search(hold(100.0));
    assert!(plan.warnings.is_empty() && !risk(&plan));
}

#[test]
fn a_loss_is_rebuilt_by_one_model() {
    let text = |nodes, protection: &str| {
        let (node, protection) = ("micron-6500ion".to_owned(), protection.parse().unwrap());
        let given = GivenCluster { node, nodes, drives: None, protection };
        let catalogue = Catalogue::built_in();
        let layout = DemandPlan::evaluate(&catalogue, &given, &DemandPolicy::default()).unwrap();
        report::of_layout(&layout, &CostBasis::of(&catalogue.prices)).text()
    };
    let six = text(6, "4+2");
    assert!(
        six.contains(
            "a lost drive is rebuilt  in 1.778 h, onto 5 other drives, all filled to 60 %\n"
        ),
        "{six}"
    );
    assert!(six.contains("a lost node is rebuilt   not until it is replaced; then in "), "{six}");
    let ten = text(10, "4+2");
    assert!(ten.contains("onto 59 other drives, all filled to 60 %\n"), "{ten}");
    assert!(ten.contains("onto 54 other drives, all filled to 60 %\n"), "{ten}");
    let one = text(10, "1");
    assert!(one.contains("a lost drive is rebuilt  never: what it held is lost\n"), "{one}");
    assert!(one.contains("a lost node is rebuilt   never: what it held is lost\n"), "{one}");
}

#[test]
fn what_costs_are_counted_with_stands_in_every_form() {
    let plan =
        DemandPlan::search(&fast_node(), hold(100.0), under(EC_4_2), &only("nvme10")).unwrap();
    let document = report::of_plan(&plan);
    let line = "power with cooling ÷ power of the machines (PUE)";
    for text in [document.text(), document.markdown(), document.html(), document.csv()] {
        assert!(text.contains(line) && text.contains("0.15 USD"), "{text}");
    }
}
