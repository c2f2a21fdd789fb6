//! Goal: `varve bench ec` measures every kind of instructions of this machine, and finds their strips right. Method:
//! the binary, on short strips.

use crate::rig::{Run, varve};

fn run(more: &[&str]) -> Run {
    let arguments = ["bench", "ec", "--strip", "4KiB", "--duration", "9ms"];
    varve(&[&arguments[..], more].concat())
}

#[test]
fn each_kind_of_instructions_has_a_row() {
    let text = run(&[]).ok();
    assert!(text.starts_with("code     4+2, p+q\nstrips   4 KiB each, 2 rebuilt\n"), "{text}");
    assert!(text.contains("\nINSTRUCTIONS  ENCODE GB/s "), "{text}");
    assert!(text.lines().any(|line| line.starts_with("scalar ")), "{text}");
    assert!(text.contains("\nISA-L "), "{text}");
}

#[test]
fn json_has_rates_and_says_whether_isa_l_was_there() {
    let json = run(&["-k", "10", "-m", "4", "--lost", "3", "--json"]).json();
    assert_eq!((&json["data_strips"], &json["parity_strips"]), (&10.into(), &4.into()));
    assert_eq!((&json["lost_strips"], &json["strip_bytes"]), (&3.into(), &4096.into()));
    assert_eq!(json["code"], "cauchy");
    assert_ne!(json["isa_l"].is_null(), json["isa_l_missing"].is_null());
    let rates = json["rates"].as_array().unwrap();
    assert_eq!(rates[0]["contender"], "scalar");
    let of_library = rates.iter().any(|rate| rate["contender"] == "isa-l");
    assert_eq!(of_library, json["isa_l"].is_string());
    for rate in rates {
        assert_eq!(rate["wrong_rounds"], 0, "{rate}");
        assert!(rate["encode"]["median"].as_f64().unwrap() > 0.0, "{rate}");
        assert!(rate["decode"]["min"].as_f64().unwrap() > 0.0, "{rate}");
    }
}

#[test]
fn strips_that_there_cannot_be_are_misuse() {
    let refused = run(&["-k", "0"]).refused(2);
    assert!(refused.contains("0+2 strips"), "{refused}");
    let refused = run(&["-k", "31", "-m", "2"]).refused(2);
    assert!(refused.contains("32 in all at most"), "{refused}");
    let refused = run(&["--lost", "3"]).refused(2);
    assert!(refused.contains("3 lost strips: must be from 1 to 2"), "{refused}");
    let refused = varve(&["bench", "ec", "--strip", "0"]).refused(2);
    assert!(refused.contains("0 bytes of a strip"), "{refused}");
}
