//! Presets on objects: workloads as COSBench's XML, from the first bucket to none.

use std::fmt::Write;

use crate::preset::{Metric, Preset, PresetWork, Segments};

/// Times of CeTune's template: ramp, measured, ramp down, in s.
const CETUNE: (u64, u64, u64) = (90, 300, 30);

/// Readers of the video presets, one stage each.
const READERS: [u32; 6] = [100, 200, 300, 400, 500, 600];

/// A segment of video; and when it has to be there.
const SEGMENTS: Segments = Segments { least_s: 8, most_s: 14 };
const LATE_S: u32 = SEGMENTS.least_s;

/// Sizes of S0's table 12, as it shares them among reads and among writes.
const READ_SIZES: &str = "h(4000|4000|80,2500|2500|10,1900|1900|5,1250|1250|5)KB";
const WRITTEN_SIZES: &str = "h(4000|4000|25,2500|2500|25,1900|1900|25,1250|1250|25)KB";

/// Small images to archives; longer ones than a part go in parts.
const ARCHIVE_SIZES: &str = "h(64|256|1,256|1024|1,1024|4096|1,4096|16384|1,16384|65536|1,65536|262144|1,262144|1048576|1,1048576|4000000|1)KB;partsize=64MB";

const ASUS_SIZES: &str =
    "h(1|100|604,101|500|116,501|1024|51,1025|5120|169,5121|102400|18,102401|1024000|2)KB";

/// What COSBench's presets have in common.
struct Shape {
    id: &'static str,
    containers: u32,
    /// Objects of each container that are there before the load.
    objects: u32,
    /// Objects of each container at most.
    objects_max: u32,
    /// Of those that are there before.
    sizes: &'static str,
}

/// A stage of the load.
struct Main {
    workers: u32,
    times: (u64, u64, u64),
    operations: Vec<ObjectOperation>,
}

struct ObjectOperation {
    kind: &'static str,
    ratio: u32,
    objects: (u32, u32),
    /// Of what it writes.
    sizes: &'static str,
}

/// All of them.
pub(super) fn presets() -> Vec<Preset> {
    let mut all = Vec::new();
    for (id, size, limit) in [
        ("cos-small", "c(128)KB", "the gateway's network: 9,765 objects/s at 10GbE"),
        ("cos-large", "c(10)MB", "the gateway's network: 125 objects/s at 10GbE"),
    ] {
        for kind in ["read", "write"] {
            all.push(cosbench(id, kind, size, limit));
        }
    }
    all.extend([mixed(), asus(), dvr("dvr-private", 15), dvr("dvr-shared", 85), vod(), archive()]);
    all
}

fn cosbench(id: &str, kind: &'static str, sizes: &'static str, reference: &'static str) -> Preset {
    let shape = Shape { id: "", containers: 100, objects: 100, objects_max: 100, sizes };
    let operations = vec![ObjectOperation { kind, ratio: 100, objects: (1, 100), sizes }];
    let main = Main { workers: 320, times: CETUNE, operations };
    let id = format!("{id}-{kind}");
    Preset {
        what: format!("COSBench: {kind}s of {}", sizes.replace(['c', '(', ')'], " ").trim()),
        source: "S0",
        setting: "2 copies; 4 drivers of COSBench, whose workers are those of one process here",
        assumed: vec![
            "ramp 90 s, 300 s measured, ramp down 30 s",
            "objects are drawn (u) by the load, and counted (r) when they are written: the source says neither (X24)",
        ],
        reference,
        metric: Metric::Network,
        work: PresetWork::Objects { xml: xml(&id, &shape, &[main]), segments: None },
        id,
    }
}

fn mixed() -> Preset {
    let shape = Shape {
        id: "cos-mixed-80-20",
        containers: 32,
        objects: 50,
        objects_max: 100,
        sizes: "c(64)KB",
    };
    let main = Main {
        workers: 8,
        times: (100, 300, 0),
        operations: mix(80, (1, 50), (51, 100), "c(64)KB"),
    };
    let what = "COSBench's sample: 80 % reads of 64 KB";
    preset(&shape, what, "COSBench", Vec::new(), "", &[main])
}

fn asus() -> Preset {
    let shape = Shape {
        id: "asus-trace",
        containers: 431,
        objects: 1299,
        objects_max: 1299,
        sizes: ASUS_SIZES,
    };
    // As the source has it: its main stage has one operation, which reads.
    let operations =
        vec![ObjectOperation { kind: "read", ratio: 100, objects: (1, 1299), sizes: ASUS_SIZES }];
    let main = Main { workers: 256, times: (0, 900, 0), operations };
    preset(&shape, "COSBench's trace of a cloud drive", "COSBench", Vec::new(), "", &[main])
}

fn dvr(id: &'static str, read_percent: u32) -> Preset {
    let shape = Shape { id, containers: 10, objects: 100, objects_max: 200, sizes: READ_SIZES };
    let mains = READERS.map(|workers| Main {
        workers,
        times: CETUNE,
        operations: mix(read_percent, (1, 100), (101, 200), WRITTEN_SIZES),
    });
    let (what, share) = if read_percent < 50 {
        ("video recorders, a copy for each user", "85 % writes: what is never watched")
    } else {
        ("video recorders, a copy for all users", "85 % reads")
    };
    let assumed = vec![
        share,
        "1000 segments to be read, and as many to be written",
        "a segment plays for 8 to 14 s, and as often each reader asks for one, whatever became of the last; writes beside reads by their share",
        "ramp 90 s, 300 s measured, ramp down 30 s",
    ];
    let reference = "most readers whose segments come within 8 s";
    segments(preset(&shape, what, "S0, figures 16 to 21", assumed, reference, &mains), false)
}

fn vod() -> Preset {
    let shape =
        Shape { id: "vod", containers: 10, objects: 100, objects_max: 100, sizes: "c(4)MB" };
    let mains = READERS.map(|workers| Main {
        workers,
        times: CETUNE,
        operations: vec![ObjectOperation {
            kind: "read",
            ratio: 100,
            objects: (1, 100),
            sizes: "",
        }],
    });
    let assumed = vec![
        "4 MB",
        "100 to 600 readers, each of which asks for a segment each 8 to 14 s, whatever became of the last, 8 s before it has to be there",
        "1000 segments",
        "ramp 90 s, 300 s measured, ramp down 30 s",
    ];
    let reference = "no segment later than its deadline";
    segments(preset(&shape, "video on demand", "S0", assumed, reference, &mains), true)
}

/// Workers are readers of segments.
fn segments(mut preset: Preset, is_strict: bool) -> Preset {
    preset.metric = Metric::Readers { within_s: LATE_S, is_strict };
    if let PresetWork::Objects { segments, .. } = &mut preset.work {
        *segments = Some(SEGMENTS);
    }
    preset
}

/// Large objects go in parts; what is read is compared.
fn archive() -> Preset {
    let shape = Shape {
        id: "backup-archive",
        containers: 10,
        objects: 10,
        objects_max: 20,
        sizes: ARCHIVE_SIZES,
    };
    let main =
        Main { workers: 16, times: CETUNE, operations: mix(5, (1, 10), (11, 20), ARCHIVE_SIZES) };
    let assumed = vec![
        "95 % PUT, 5 % GET that verify",
        "64 KB to 4 GB, as many of each factor of four",
        "parts of 64 MB",
        "100 objects to be read, and as many to be written, 16 streams",
        "ramp 90 s, 300 s measured, ramp down 30 s",
    ];
    let reference = "MB/s, bytes for money; 1.4 times the data stored";
    let what = "backups into coded storage, in parts";
    let setting = "code 10+4, 8+3 or 4+2";
    let metric = Metric::Streams;
    Preset { setting, metric, ..preset(&shape, what, "S0", assumed, reference, &[main]) }
}

fn mix(
    read_percent: u32,
    read: (u32, u32),
    written: (u32, u32),
    sizes: &'static str,
) -> Vec<ObjectOperation> {
    vec![
        ObjectOperation { kind: "read", ratio: read_percent, objects: read, sizes: "" },
        ObjectOperation { kind: "write", ratio: 100 - read_percent, objects: written, sizes },
    ]
}

fn preset(
    shape: &Shape,
    what: &str,
    source: &'static str,
    assumed: Vec<&'static str>,
    reference: &'static str,
    mains: &[Main],
) -> Preset {
    Preset {
        id: shape.id.to_owned(),
        what: what.to_owned(),
        source,
        setting: "",
        assumed,
        reference,
        metric: Metric::Table,
        work: PresetWork::Objects { xml: xml(shape.id, shape, mains), segments: None },
    }
}

/// The workload: buckets begin with its name.
fn xml(id: &str, shape: &Shape, mains: &[Main]) -> String {
    let Shape { containers, objects, objects_max, sizes, .. } = shape;
    let place = format!("cprefix={id}-;containers=r(1,{containers})");
    let workers = mains.iter().map(|main| main.workers).max().unwrap_or(1).min(*containers);
    let mut text = format!(
        "<workload name=\"{id}\" description=\"\">\n  <storage type=\"s3\"/>\n  <workflow>\n"
    );
    let mut stage = |name: &str, work: &str| {
        let _ = write!(text, "    <workstage name=\"{name}\">\n{work}    </workstage>\n");
    };
    let special = |kind: &str, config: &str| {
        format!("      <work type=\"{kind}\" workers=\"{workers}\" config=\"{place}{config}\"/>\n")
    };
    stage("init", &special("init", ""));
    stage("prepare", &special("prepare", &format!(";objects=r(1,{objects});sizes={sizes}")));
    for main in mains {
        let Main { workers, times: (ramp, runtime, down), operations } = main;
        let name = if mains.len() == 1 { "main".to_owned() } else { format!("{workers}-readers") };
        let mut work = format!(
            "      <work name=\"{name}\" workers=\"{workers}\" rampup=\"{ramp}\" runtime=\"{runtime}\" rampdown=\"{down}\">\n"
        );
        for ObjectOperation { kind, ratio, objects: (first, last), sizes } in operations {
            let sizes = match *kind {
                "write" => format!(";sizes={sizes}"),
                _ if id == "backup-archive" => ";hashCheck=true".to_owned(),
                _ => String::new(),
            };
            let _ = writeln!(
                work,
                "        <operation type=\"{kind}\" ratio=\"{ratio}\" config=\"cprefix={id}-;containers=u(1,{containers});objects=u({first},{last}){sizes}\"/>"
            );
        }
        work.push_str("      </work>\n");
        stage(&name, &work);
    }
    stage("cleanup", &special("cleanup", &format!(";objects=r(1,{objects_max})")));
    stage("dispose", &special("dispose", ""));
    text + "  </workflow>\n</workload>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosbench::{Selector, Verb, WorkEnd, WorkKind, Workload};

    #[test]
    fn every_workload_is_one_of_cosbench() {
        for preset in presets() {
            let PresetWork::Objects { xml, .. } = &preset.work else { panic!("{}", preset.id) };
            let workload = Workload::read(xml).unwrap();
            let compares = workload.notes == ["hashCheck of operation read is ignored"];
            assert!(workload.notes.is_empty() || compares, "{:?}", workload.notes);
            let kinds: Vec<WorkKind> =
                workload.stages.iter().map(|stage| stage.works[0].kind).collect();
            assert_eq!(kinds[..2], [WorkKind::Init, WorkKind::Prepare], "{}", preset.id);
            assert!(kinds.ends_with(&[WorkKind::Cleanup, WorkKind::Dispose]), "{}", preset.id);
        }
    }

    #[test]
    fn a_smaller_one_reads_what_is_written_before() {
        for preset in presets() {
            let PresetWork::Objects { xml, .. } = &preset.work else { panic!("{}", preset.id) };
            let whole = Workload::read(xml).unwrap();
            let (objects, bytes) = whole.prepared();
            for size_bytes in [bytes * 2, bytes, bytes / 3, bytes / 100, bytes / 100_000] {
                let mut smaller = whole.clone();
                smaller.shrink(size_bytes);
                let (fewer, less) = smaller.prepared();
                assert!(fewer >= 1 && fewer <= objects && less <= bytes, "{}", preset.id);
                assert!(less <= size_bytes.max(bytes / objects + 1), "{} {size_bytes}", preset.id);
                let bounds = |kind: WorkKind, verb: Verb| {
                    let works = smaller.stages.iter().flat_map(|stage| &stage.works);
                    let works = works.filter(move |work| work.kind == kind);
                    works
                        .flat_map(|work| &work.operations)
                        .filter(move |operation| operation.verb == verb)
                        .map(|operation| {
                            (operation.containers.bounds(), operation.objects.bounds())
                        })
                        .collect::<Vec<_>>()
                };
                let (containers, there) = bounds(WorkKind::Prepare, Verb::Write)[0];
                for (of, objects) in bounds(WorkKind::Normal, Verb::Read) {
                    assert!(of == containers && objects.1 <= there.1, "{} {size_bytes}", preset.id);
                }
            }
        }
    }

    #[test]
    fn parameters_are_those_of_the_sources() {
        let stages = |id: &str| {
            let preset = presets().into_iter().find(|preset| preset.id == id).unwrap();
            let PresetWork::Objects { xml, .. } = preset.work else { panic!("{id}") };
            Workload::read(&xml).unwrap().stages
        };
        let small = &stages("cos-small-write")[2].works[0];
        assert_eq!((small.workers, small.ramp_up_s, small.end), (320, 90, WorkEnd::Runtime(300)));
        assert_eq!(small.operations[0].sizes, Selector::Constant(128_000));
        assert_eq!(small.operations[0].objects, Selector::Uniform { min: 1, max: 100 });
        let shared = stages("dvr-shared");
        let readers: Vec<u32> = shared[2..8].iter().map(|stage| stage.works[0].workers).collect();
        assert_eq!(readers, READERS);
        let ratios: Vec<(Verb, u64)> =
            shared[2].works[0].operations.iter().map(|one| (one.verb, one.ratio)).collect();
        assert_eq!(ratios, [(Verb::Read, 85), (Verb::Write, 15)]);
        let archive = stages("backup-archive");
        let parts = Some(64_000_000);
        assert_eq!(archive[1].works[0].operations[0].part_bytes, parts);
        let [read, write] = archive[2].works[0].operations.as_slice() else {
            panic!("{archive:?}")
        };
        assert_eq!(
            (read.ratio, read.verifies, write.ratio, write.part_bytes),
            (5, true, 95, parts)
        );
        assert_eq!(write.sizes.bounds(), (64_000, 4_000_000_000));
        assert_eq!(stages("asus-trace")[1].works[0].operations[0].objects.bounds(), (1, 1299));
    }
}
