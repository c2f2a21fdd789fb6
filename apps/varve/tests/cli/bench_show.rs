//! Goal: `varve bench show` tells the parameters of a preset, tells KB from KiB and what is assumed. Method: the
//! binary.

use crate::rig::varve;

#[test]
fn a_preset_is_shown_with_its_source() {
    let text = varve(&["bench", "show", "appb-small-90w"]).ok();
    for part in [
        "source     S0, appendix B\n",
        "size       1.1 TiB (1250000000000 bytes)\n",
        "time       300 s after 30 s, each block written once before\n",
        "clients    5, as in the source, on a file, a device or an export; else 1, or what --clients says\n",
        "load       4 KiB random, 10 % reads, 50 jobs × 32 under way, as fast as answered (source: 4 KB)\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("assumed"), "the source says all of it: {text}");
    let json = varve(&["bench", "show", "idf16", "--json"]).json();
    assert_eq!(json["work"]["steps"].as_array().unwrap().len(), 8);
    assert_eq!(json["work"]["steps"][6]["pattern"], "sequential");
    assert_eq!(json["work"]["clients"], 1);
    let fio = varve(&["bench", "show", "uc1-fio"]).ok();
    let load = "100 % reads, 40 jobs × 32 under way";
    assert!(fio.contains("clients    4, as in the source") && fio.contains(load), "{fio}");
    assert!(varve(&["bench", "show", "general"]).ok().contains("\nassumed"));
    let oltp = varve(&["bench", "show", "oltp-8k"]).ok();
    let score =
        "\nscore      most operations/s of the loads with a mean latency within 1, 3, 4 ms\n";
    assert!(oltp.contains(score), "{oltp}");
    assert_eq!(json["score"], "figures of each load");
}

#[test]
fn objects_that_fit_in_memory_are_warned_of() {
    let small = varve(&["bench", "show", "cos-small-read"]).ok();
    assert!(
        small.contains("\nsize       1.1 GiB (1280000000 bytes) in 10000 objects\n"),
        "{small}"
    );
    assert!(small.contains("\nwarning    1.1 GiB fit in RAM"), "{small}");
    let large = varve(&["bench", "show", "cos-large-read"]).ok();
    assert!(large.contains("(100000000000 bytes)") && !large.contains("warning"), "{large}");
    let json = varve(&["bench", "show", "cos-small-write", "--json"]).json();
    let warning = json["work"]["warning"].as_str().unwrap();
    assert!(warning.contains("fit in RAM"), "{json}");
}

#[test]
fn what_cannot_be_run_is_shown_and_unknown_names_are_refused() {
    let text = varve(&["bench", "show", "yahoo-cas"]).ok();
    assert!(text.contains("parameters  code 8+3; objects of 4 to 64 KB;"), "{text}");
    assert!(
        text.contains(
            "not yet     a cache tier before coded storage, and caches dropped between steps\n"
        ),
        "{text}"
    );
    let text = varve(&["bench", "show", "asus-trace"]).ok();
    assert!(text.contains("\n<workload name=\"asus-trace\""), "{text}");
    assert!(!text.contains("assumed: ") && !text.contains("type=\"write\""), "{text}");
    assert!(text.contains("sizes=h(1|100|604,101|500|116,"), "{text}");
    assert!(varve(&["bench", "show", "nope"]).refused(2).contains("no preset `nope`"));
}
