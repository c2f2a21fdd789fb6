//! Goal: the built-in catalogue is read, and faulty files are refused at the right place.

use super::*;
use crate::error::Error;
use crate::units::Amount;

fn complaint(text: &str) -> String {
    let mut catalogue = Catalogue::built_in();
    let error = catalogue.add("mine.toml", text).unwrap_err();
    assert!(matches!(error, Error::Catalogue { .. }));
    assert_eq!(catalogue.drives.len(), Catalogue::built_in().drives.len(), "nothing is added");
    error.to_string()
}

const DRIVE: &str = "[[drive]]\nname = \"d\"\nmedia = \"nvme\"\ncapacity = \"1TB\"\n";

#[test]
fn the_built_in_catalogue_has_the_sources_hardware() {
    let catalogue = Catalogue::built_in();
    for name in [
        "intel-good",
        "intel-better",
        "intel-best",
        "vdi-uc1",
        "sql-uc3",
        "object-uc4",
        "dvr-uc5",
        "yahoo-uc7",
        "idf16",
        "micron-6500ion",
        "hdd-nvme",
    ] {
        assert!(catalogue.nodes.contains_key(name), "{name}");
    }
    assert_eq!(catalogue.clusters.len(), 8);
    assert_eq!(catalogue.drives["micron-6500-ion"].capacity.tb(), 32.0);
    // Erratum X17: all three statements are kept.
    let mixed = catalogue.measured.iter().filter(|row| row.read_share.base() == 0.7).count();
    assert_eq!(mixed, 3);
}

#[test]
fn what_is_assumed_is_a_field_of_the_entry() {
    for (file, text) in [
        ("hardware", include_str!("../../catalogue/hardware.toml")),
        ("workloads", include_str!("../../catalogue/workloads.toml")),
    ] {
        for entry in text.split("\n[") {
            let Some(list) = entry.lines().find(|line| line.starts_with("assumed")) else {
                continue;
            };
            for field in list.split('"').skip(1).step_by(2) {
                let named = format!("\n{field} = ");
                assert!(entry.contains(&named), "{file}: {field} in {entry}");
            }
        }
    }
}

#[test]
fn later_files_add_and_replace() {
    let mut catalogue = Catalogue::built_in();
    let text = format!(
        "{DRIVE}price = 100\n[[node]]\nname = \"sql-uc3\"\ndrive = \"d\"\ndrives = 2\nports = 1\n\
         speed = \"25Gbit/s\"\n[prices]\ncurrency = \"EUR\"\nkwh = 0.3\n[prices.drives]\np3700-800 = 500\n"
    );
    catalogue.add("mine.toml", &text).unwrap();
    assert_eq!(catalogue.nodes["sql-uc3"].drives, 2);
    assert_eq!(catalogue.drives["p3700-800"].price.unwrap().base(), 500.0);
    assert_eq!(catalogue.prices.currency.as_deref(), Some("EUR"));
    assert_eq!(catalogue.prices.kwh.unwrap().base(), 0.3);
    assert!(!catalogue.prices.assumed.contains(&"kwh".to_owned()));
    assert!(catalogue.prices.power_usage_effectiveness.is_some(), "kept");
}

#[test]
fn faults_are_named_with_line_and_column() {
    let no_toml = complaint("[[drive]\n");
    assert!(no_toml.starts_with("mine.toml:1:"), "{no_toml}");
    let unit = complaint(&DRIVE.replace("1TB", "1T"));
    assert!(
        unit.starts_with("mine.toml:4:12: invalid size `1T`: `T` is not among its units"),
        "{unit}"
    );
    let rate = complaint(&format!("{DRIVE}read_rate = \"10Gbit/s\"\n"));
    assert!(
        rate.contains(
            "mine.toml:5:13: invalid rate in bytes `10Gbit/s`: `Gbit/s` is the unit of a rate in bits"
        ),
        "{rate}"
    );
    let field = complaint(&format!("{DRIVE}colour = \"red\"\n"));
    assert!(field.contains(":5:1: unknown field `colour`"), "{field}");
    let missing = complaint("[[drive]]\nname = \"d\"\nmedia = \"nvme\"\n");
    assert!(missing.contains("missing field `capacity`"), "{missing}");
    let node =
        "[[node]]\nname = \"n\"\ndrive = \"nope\"\ndrives = 1\nports = 1\nspeed = \"1Gbit/s\"\n";
    assert!(
        complaint(node)
            .starts_with("mine.toml:3:9: unknown drive `nope`; add a [[drive]], or use one of")
    );
    let none = node.replace("nope", "hdd-1tb").replace("drives = 1", "drives = 0");
    assert!(complaint(&none).contains(":2:8: `n`: drives are not 1 to drives_max"));
    let erratum = complaint(&format!("{DRIVE}errata = [\"X99\"]\n"));
    assert!(erratum.contains(":5:11: unknown erratum `X99`"), "{erratum}");
    let price = complaint("[prices.drives]\nnope = 1\n");
    assert!(price.contains(":2:1: unknown drive `nope`"), "{price}");
    assert!(complaint("[prices]\npower_usage_effectiveness = 0.5\n").contains("is 0.5"));
}

#[test]
fn any_bytes_are_read_or_refused() {
    let text = include_str!("../../catalogue/hardware.toml");
    for end in (0..text.len()).step_by(97) {
        let _ = Catalogue::default().add("cut.toml", &text[..end]);
    }
    for position in (0..text.len()).step_by(61) {
        let mut bytes = text.as_bytes().to_vec();
        bytes[position] ^= 4;
        if let Ok(damaged) = std::str::from_utf8(&bytes) {
            let _ = Catalogue::default().add("damaged.toml", damaged);
        }
    }
}

#[test]
fn the_example_of_the_manual_is_read() {
    let page = include_str!("../../../../docs/operating/plan.md");
    let (_, rest) = page.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let mut catalogue = Catalogue::built_in();
    catalogue.add("plan.md", example).unwrap();
    assert_eq!(catalogue.nodes["box"].drives_max, Some(10));
}

#[test]
fn the_document_lists_every_field() {
    let document = include_str!("../../../../docs/plan.md");
    let (_, catalogue) = document.split_once("## Catalogue").unwrap();
    let (catalogue, _) = catalogue.split_once("\n## ").unwrap();
    for line in include_str!("entries.rs").lines() {
        let Some(field) = line.trim().strip_prefix("pub ").and_then(|line| line.split_once(": "))
        else {
            continue;
        };
        let named = format!("`{}", field.0);
        assert!(catalogue.contains(&named), "docs/plan.md lacks {}", field.0);
    }
}
