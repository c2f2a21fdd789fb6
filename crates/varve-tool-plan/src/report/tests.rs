//! Goal: reports say what plans hold, in every form, and no text of a catalogue breaks out of them.

use super::*;
use crate::catalogue::{Catalogue, Class};
use crate::demand::{Demand, DemandPolicy, FailureDomain};
use crate::protection::Protection;
use crate::search::{Choice, DemandPlan, GivenCluster};
use crate::standing::Assessment;
use crate::units::{Amount, Bytes};
use crate::{Comparison, parse};

fn plan(catalogue: &Catalogue, nodes: &[&str]) -> DemandPlan {
    let demand =
        Demand { class: Class::Bandwidth, usable_bytes: Bytes::of_base(2e15), ..Demand::default() };
    let policy = DemandPolicy {
        protections: vec![Protection::Copies(3), "4+2".parse().unwrap()],
        ..DemandPolicy::default()
    };
    let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
    DemandPlan::search(catalogue, demand, policy, &Choice { nodes, ..Choice::default() }).unwrap()
}

#[test]
fn a_plan_names_what_binds() {
    let plan = plan(&Catalogue::built_in(), &["hdd-nvme", "micron-6500ion"]);
    let text = of_plan(&plan).text();
    for part in [
        "data               2 PB\n",
        "hdd-nvme",
        "bound by capacity",
        "capacity         34.72    35     F2       binds",
        "X05 Micron's comparison",
        "currency           USD\n",
        "Alternatives by cost, prices in USD\n",
        "a kWh                                             0.15 USD  kwh                        assumed\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(text.lines().all(|line| line.trim_end() == line));
}

#[test]
fn all_forms_hold_the_same() {
    let catalogue = Catalogue::built_in();
    let documents = [
        of_plan(&plan(&catalogue, &[])),
        of_standing(&Assessment::of(&catalogue, "idf16").unwrap()),
        of_comparison(&Comparison::of(&catalogue, "hdd-nvme", "micron-6500ion").unwrap()),
    ];
    for document in documents {
        let (text, markdown, html) = (document.text(), document.markdown(), document.html());
        let csv = fields(&document.csv());
        for part in &document.parts {
            let ReportPart::Table(table) = part else { continue };
            assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
            for (index, row) in table.rows.iter().enumerate() {
                for (title, cell) in table.header.iter().zip(row) {
                    let is_it = |line: &Vec<String>| {
                        line[1] == (index + 1).to_string()
                            && line[2] == *title
                            && line[3].trim_start_matches('\'').replace(',', "")
                                == cell.replace(',', "")
                    };
                    assert!(csv.iter().any(is_it), "{row:?} {title}");
                }
            }
            for cell in table.rows.iter().flatten() {
                assert!(text.contains(cell.as_str()), "{cell}");
                assert!(markdown.replace('\\', "").contains(cell.as_str()), "{cell}");
                assert!(html.contains(cell.as_str()), "{cell}");
            }
        }
        let balanced = |tag: &str| {
            let opened = ["", " class=\"n\""].map(|class| format!("<{tag}{class}>"));
            let opened: usize = opened.iter().map(|tag| html.matches(tag.as_str()).count()).sum();
            opened == html.matches(&format!("</{tag}>")).count()
        };
        assert!(["table", "tr", "td", "th", "ul", "li", "h2"].iter().all(|tag| balanced(tag)));
        assert!(!html.contains("http"), "a page needs nothing else");
    }
}

/// Lines of CSV as RFC 4180 has it, each of six fields.
fn fields(text: &str) -> Vec<Vec<String>> {
    let (mut lines, mut line, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut is_quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match (c, is_quoted) {
            ('"', true) if chars.peek() == Some(&'"') => field.extend(chars.next()),
            ('"', _) => is_quoted = !is_quoted,
            (',', false) => line.push(std::mem::take(&mut field)),
            ('\r', false) => {
                assert_eq!(chars.next(), Some('\n'));
                line.push(std::mem::take(&mut field));
                lines.push(std::mem::take(&mut line));
            }
            (c, _) => field.push(c),
        }
    }
    assert!(!is_quoted && line.is_empty() && field.is_empty(), "the last line ends");
    assert!(lines.iter().all(|line| line.len() == 6), "{text}");
    lines
}

#[test]
fn a_field_of_csv_is_what_it_was_and_never_a_formula() {
    let rows = [["=1+1", "1,234.5"], ["-3", "a \"b\",\r\nc"], ["@x", "-1 %"]];
    let rows = rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect();
    let document = Document::new("Title")
        .facts(vec![("cost", "12,000".to_owned())])
        .table("Nodes", ReportTable { header: vec!["node", "price"], rows })
        .notes("Risks", vec!["one".to_owned(), "two".to_owned()]);
    let lines = fields(&document.csv());
    let expected = [
        ["part", "row", "column", "value", "number", "unit"],
        ["Title", "1", "cost", "12000", "12000", ""],
        ["Nodes", "1", "node", "'=1+1", "", ""],
        ["Nodes", "1", "price", "1234.5", "1234.5", ""],
        ["Nodes", "2", "node", "-3", "-3", ""],
        ["Nodes", "2", "price", "a \"b\",\r\nc", "", ""],
        ["Nodes", "3", "node", "'@x", "", ""],
        ["Nodes", "3", "price", "'-1 %", "-1", "%"],
        ["Risks", "1", "", "one", "", ""],
        ["Risks", "2", "", "two", "", ""],
    ];
    assert_eq!(lines, expected);
}

#[test]
fn amounts_of_a_column_of_csv_add_up() {
    let cells = [
        ("85.33 TB", "85330000000000", "B"),
        ("1.933 PB", "1933000000000000", "B"),
        ("64 KiB", "65536", "B"),
        ("32, bound by capacity", "32", ""),
        ("2,048 (formula 1,033), 99 an OSD", "2048", ""),
        ("100 TB, growing 10 % a year", "100000000000000", "B"),
        ("1,250 MB/s, bound by the network", "1250000000", "B/s"),
        ("10 Gbit/s", "10000000000", "bit/s"),
        ("2.5 h", "9000", "s"),
        ("300 µs", "0.0003", "s"),
        ("10.5 kW", "10500", "W"),
        ("382,576 USD", "382576", "USD"),
        ("11.5×", "11.5", "×"),
        ("4+2", "", ""),
        ("6 × micron", "", ""),
        ("500,000/s of 4 KiB, 70 % reads", "", ""),
        ("–", "", ""),
    ];
    let rows = cells.iter().map(|(cell, ..)| vec![(*cell).to_owned()]).collect();
    let csv =
        Document::new("Title").table("Sizes", ReportTable { header: vec!["size"], rows }).csv();
    for (line, (cell, number, unit)) in fields(&csv)[1..].iter().zip(cells) {
        assert_eq!([&line[4], &line[5]], [number, unit], "{cell}");
    }
}

#[test]
fn the_comparison_prints_the_source_s_figures_right() {
    let comparison = Comparison::of(&Catalogue::built_in(), "hdd-nvme", "micron-6500ion").unwrap();
    let text = of_comparison(&comparison).text();
    for part in [
        "4,583",
        "52,540",
        "11.5×",
        "26.8×",
        "46.5×",
        "36.6×",
        // Erratum X02: all three bases.
        "10.0×",
        "10.1×",
        "12.9×",
        "68.79    69     X01",
        "160.6    161",
        "source",
        "68 HDD nodes",
    ] {
        assert!(text.contains(part) || part == "source", "{part}\n{text}");
    }
}

#[test]
fn names_do_not_break_out() {
    let mut catalogue = Catalogue::built_in();
    let hostile = "[[drive]]\nname = \"<script>|*\"\nmedia = \"ssd\"\ncapacity = \"1TB\"\n[[node]]\n\
                   name = \"a&\\\"b|<i>\"\ndrive = \"<script>|*\"\ndrives = 4\nports = 1\nspeed = \"10Gbit/s\"\n";
    catalogue.add("mine.toml", hostile).unwrap();
    let document = of_plan(&plan(&catalogue, &["a&\"b|<i>"]));
    let html = document.html();
    assert!(!html.contains("<script>") && !html.contains("<i>"));
    assert!(html.contains("a&amp;&quot;b|&lt;i&gt;"));
    assert!(document.markdown().contains("a&\"b\\|\\<i\\>"));
}

#[test]
fn a_plan_that_fails_says_why() {
    let plan = plan(&Catalogue::built_in(), &["idf16"]);
    assert!(plan.layouts.len() == 2, "capacity can always be met");
    let mut demand = plan.demand;
    demand.read_bytes_per_second = parse("1GB/s").unwrap();
    let choice = Choice { nodes: vec!["intel-best".to_owned()], ..Choice::default() };
    let plan = DemandPlan::search(&Catalogue::built_in(), demand, plan.policy, &choice).unwrap();
    let text = of_plan(&plan).text();
    assert!(text.contains("no kind of node meets the demand"), "{text}");
    assert!(
        text.contains("- intel-best, 3 copies: a stream read by intel-best is not known"),
        "{text}"
    );
}

#[test]
fn configurations_follow_the_layout() {
    let plan = plan(&Catalogue::built_in(), &["micron-6500ion"]);
    let layout =
        plan.layouts.iter().find(|layout| layout.protection != Protection::Copies(3)).unwrap();
    let conf = ceph(layout);
    // Defaults are those of every other pool: three copies, and placement groups as Ceph chooses.
    let settings: Vec<&str> =
        conf.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(
        settings,
        ["[global]", "osd_pool_default_size = 3", "osd_pool_default_min_size = 2"]
    );
    assert!(conf.contains("k=4 m=2 crush-failure-domain=host crush-device-class=ssd\n"), "{conf}");
    let groups = layout.placement_groups.count;
    let pool = format!("# ceph osd pool create varve-data {groups} {groups} erasure varve\n");
    assert!(conf.contains(&pool), "{conf}");
    assert!(!conf.contains("journal"), "{conf}");
    // Copies and strips over several machines are Ceph's.
    let toml = varve(layout);
    assert!(!toml.lines().any(|line| line.starts_with("[[drive]]")), "{toml}");
    assert!(toml.contains("which keep EC 4+2: it has no [[drive]]"), "{toml}");
    assert!(toml.contains("# ceph osd pool set varve-meta size 3\n"), "{toml}");
    assert!(toml.contains("--data-pool varve-data --meta-pool varve-meta"), "{toml}");
    assert!(toml::from_str::<toml::Table>(&toml).unwrap().is_empty());
}

#[test]
fn one_copy_lies_on_the_drives_of_one_node() {
    let catalogue = Catalogue::built_in();
    let given = |node: &str| GivenCluster {
        node: node.to_owned(),
        nodes: 3,
        drives: None,
        protection: Protection::Copies(1),
    };
    let config = |node| {
        varve(&DemandPlan::evaluate(&catalogue, &given(node), &DemandPolicy::default()).unwrap())
    };
    let toml = config("micron-6500ion");
    assert_eq!(toml.matches("\n[[drive]]\n").count(), 6);
    assert!(toml.contains("size = \"29802GiB\""), "{toml}");
    assert!(toml.contains("# One copy, on the drives of one machine"), "{toml}");
    assert!(!toml.contains("journal drives"), "{toml}");
    assert!(toml::from_str::<toml::Table>(&toml).is_ok());
    assert!(config("hdd-nvme").contains("the journal drives of the plan stay unused"));
}

#[test]
fn copies_and_strips_of_one_machine_are_on_its_drives() {
    let catalogue = Catalogue::built_in();
    let config = |protection| {
        let node = "micron-6500ion".to_owned();
        let given = GivenCluster { node, nodes: 1, drives: None, protection };
        varve(&DemandPlan::evaluate(&catalogue, &given, &DemandPolicy::default()).unwrap())
    };
    let mirror = config(Protection::Copies(2));
    assert!(mirror.contains("survives 1 lost drive, and holds 42 % of them, the room"), "{mirror}");
    let code = config(Protection::Erasure { data: 4, parity: 2 });
    assert!(code.contains("it survives 2 lost drives, and holds 67 % of them.\n"), "{code}");
    for (toml, class) in [(mirror, "mirror:2"), (code, "ec:4+2")] {
        let parsed = toml::from_str::<toml::Table>(&toml).unwrap();
        assert_eq!(parsed["pool"]["protect"].as_str(), Some(class), "{toml}");
        assert_eq!(toml.matches("\n[[drive]]\n").count(), 6);
    }
    let wide = config(Protection::Erasure { data: 8, parity: 3 });
    assert!(wide.contains("it has no [[drive]]"), "there are six drives: {wide}");
}

#[test]
fn pools_of_ceph_have_the_failure_domain_of_the_plan() {
    let catalogue = Catalogue::built_in();
    let config = |failure_domain, protection| {
        let policy = DemandPolicy { failure_domain, ..DemandPolicy::default() };
        let node = "hdd-nvme".to_owned();
        let given = GivenCluster { node, nodes: 7, drives: None, protection };
        ceph(&DemandPlan::evaluate(&catalogue, &given, &policy).unwrap())
    };
    let code = Protection::Erasure { data: 4, parity: 2 };
    for (domain, word) in [(FailureDomain::Node, "host"), (FailureDomain::Drive, "osd")] {
        let erasure = config(domain, code);
        let profile = format!("crush-failure-domain={word} crush-device-class=hdd\n");
        assert!(erasure.contains(&profile), "{erasure}");
        let copies = config(domain, Protection::Copies(3));
        let rule = format!("# ceph osd crush rule create-replicated varve default {word} hdd\n");
        assert!(copies.contains(&rule), "{copies}");
        assert!(copies.contains(" replicated varve\n"), "{copies}");
        assert!(
            copies.contains("# OSDs whose block.db goes on each journal drive of a node: 12\n"),
            "{copies}"
        );
    }
}
