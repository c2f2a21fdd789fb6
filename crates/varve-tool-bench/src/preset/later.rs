//! Presets that need what this tool cannot do yet: their parameters are known, and what is missing is told.

use crate::preset::{Metric, Preset, PresetWork};

const FILES: &str = "file system targets";

struct LaterPreset {
    id: &'static str,
    what: &'static str,
    source: &'static str,
    needs: &'static str,
    parameters: &'static str,
    assumed: &'static [&'static str],
    reference: &'static str,
}

/// All of them.
pub(super) fn presets() -> Vec<Preset> {
    [OBJECTS, FILE].concat().iter().map(preset).collect()
}

fn preset(row: &&LaterPreset) -> Preset {
    Preset {
        id: row.id.to_owned(),
        what: row.what.to_owned(),
        source: row.source,
        setting: "",
        assumed: row.assumed.to_vec(),
        reference: row.reference,
        metric: Metric::Table,
        work: PresetWork::Needs { what: row.needs, parameters: row.parameters },
    }
}

const OBJECTS: &[&LaterPreset] = &[&LaterPreset {
    id: "yahoo-cas",
    what: "small objects in coded storage with a cache",
    source: "S0, R11",
    needs: "a cache tier before coded storage, and caches dropped between steps",
    parameters: "code 8+3; objects of 4 to 64 KB; cache 2 % of storage; at 10, 50 and 70 % full in this order: PUT, PUT_cache, GET_cache, GET; page and disk caches dropped between; requests/s swept",
    assumed: &["4 to 64 KB"],
    reference: "S0's R11",
}];

const FILE: &[&LaterPreset] = &[
    &LaterPreset {
        id: "file-smallfiles",
        what: "many small files",
        source: "S0",
        needs: FILES,
        parameters: "create, stat, read, delete of 1 M files of up to 4 KB in a deep tree",
        assumed: &["1 M files"],
        reference: "operations/s, hits of metadata",
    },
    &LaterPreset {
        id: "file-mixed",
        what: "CeTune's mix of files",
        source: "CeTune",
        needs: FILES,
        parameters: "width 10, depth 1, 10000 files, 16 threads, 65 % reads",
        assumed: &[],
        reference: "operations/s",
    },
];
