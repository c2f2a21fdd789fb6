//! Presets of block storage.

use crate::access::AccessPattern;
use crate::load::{Mixture, MixturePart};
use crate::preset::{BlockWork, Lives, Metric, Preset, PresetStep, PresetWork, VolumeWork};

const RANDOM: AccessPattern = AccessPattern::Uniform;
const SEQUENTIAL: AccessPattern = AccessPattern::Sequential;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Volumes of S0's virtual desktops.
const VDI_VOLUMES: u32 = 40;
/// Operations a second of a desktop.
const VDI_RATE: f64 = 100.0;
/// Client processes that S0's desktops are among, and those of its appendix B.
const VDI_CLIENTS: u32 = 4;
const APPENDIX_B_CLIENTS: u32 = 5;

const TIMES_ASSUMED: &str = "ramp 30 s and 300 s measured, as in S0's appendix B";
const DEPTH_ASSUMED: &str = "32 operations under way of each job";
const JOBS_ASSUMED: &str = "40 jobs, as S0's volumes";

const THREE_COPIES: &str = "3 copies, 60 % full";
const TWO_OR_THREE: &str = "2 copies (UC3) or 3 (table 2), 60 % full";

/// 4 KiB random reads of 40 jobs, which steps differ from.
const BASE: PresetStep = PresetStep {
    block_bytes: 4 * KIB,
    block_in_source: "4K",
    read_percent: 100,
    pattern: RANDOM,
    jobs: VDI_VOLUMES,
    depth: 32,
    rate: None,
    mixture: None,
    volumes: None,
};

/// The whole target, filled, with the times of S0's appendix B.
const WORK: BlockWork = BlockWork {
    size_bytes: None,
    fill: true,
    ramp_s: 30,
    duration_s: 300,
    needs: "a block target",
    clients: 1,
    compression_ratio: None,
    steps: Vec::new(),
};

fn work(steps: Vec<PresetStep>) -> PresetWork {
    PresetWork::Block(BlockWork { steps, ..WORK })
}

fn preset(id: &str, what: &str, work: PresetWork) -> Preset {
    Preset {
        id: id.to_owned(),
        what: what.to_owned(),
        source: "S0",
        setting: THREE_COPIES,
        assumed: vec![TIMES_ASSUMED],
        reference: "",
        metric: Metric::Table,
        work,
    }
}

/// All of them.
pub(super) fn presets() -> Vec<Preset> {
    [
        desktops(),
        databases(),
        appendix_b(),
        flash_arrays(),
        clients(),
        workers(),
        mixtures(),
        volumes(),
        native(),
        lives(),
        settings(),
        transports(),
    ]
    .concat()
}

fn desktops() -> Vec<Preset> {
    let measured =
        "virtual desktops at 100 operations/s each; S0: 4500 reads/s, 3358 writes/s on 40 disks";
    let step = |read_percent, rate| PresetStep { read_percent, rate, ..BASE };
    let desktop = |id, what, steps| Preset {
        source: "S0, figure 9 and table 2",
        setting: "3 copies (the measured cluster: 2), 60 % full; 4 client processes",
        reference: measured,
        metric: Metric::Volumes { rate: VDI_RATE },
        ..preset(id, what, PresetWork::Block(BlockWork { clients: VDI_CLIENTS, steps, ..WORK }))
    };
    let cap = Some(VDI_RATE * f64::from(VDI_VOLUMES));
    let capped = desktop(
        "vdi-capped",
        "virtual desktops, each capped at 100 operations/s",
        vec![step(100, cap), step(0, cap)],
    );
    let matrix = vec![
        BASE,
        PresetStep { read_percent: 0, ..BASE },
        PresetStep { block_bytes: 128 * KIB, block_in_source: "128K", pattern: SEQUENTIAL, ..BASE },
        PresetStep {
            block_bytes: 128 * KIB,
            block_in_source: "128K",
            pattern: SEQUENTIAL,
            read_percent: 0,
            ..BASE
        },
    ];
    let fio = desktop(
        "uc1-fio",
        "fio of figure 9: 40 volumes of 4 clients, 4 KiB random reads and writes",
        vec![step(100, None), step(0, None)],
    );
    vec![
        Preset {
            reference: "S0, figure 9: Xeon D has 2.5 times the operations/s of E3 v3",
            metric: Metric::Table,
            ..fio
        },
        desktop(
            "vdi-4k-rr",
            "virtual desktops: 40 volumes, 4 KiB random reads",
            vec![step(100, None)],
        ),
        desktop(
            "vdi-4k-rw",
            "virtual desktops: 40 volumes, 4 KiB random writes",
            vec![step(0, None)],
        ),
        Preset {
            assumed: vec![TIMES_ASSUMED, "bound: p99 at most 20 ms"],
            reference: "the largest number of volumes with p99 at most 20 ms",
            metric: Metric::Capped { p99_ms: 20 },
            ..capped
        },
        Preset {
            assumed: vec![TIMES_ASSUMED, DEPTH_ASSUMED, JOBS_ASSUMED, "block sizes and patterns"],
            reference: "a table of four",
            ..preset("general", "raw performance: 4 KiB random, 128 KiB sequential", work(matrix))
        },
    ]
}

fn databases() -> Vec<Preset> {
    let depths = |step: PresetStep| {
        [1, 2, 4, 8, 16, 32, 64, 128].map(|depth| PresetStep { depth, jobs: 1, ..step }).to_vec()
    };
    let sweep = |read_percent| work(depths(PresetStep { read_percent, ..BASE }));
    let oltp = |id, what, work| Preset {
        source: "S0, UC3 and table 2",
        setting: "2 copies (UC3) or 3 (table 2); data 4.8 TB, or 30 % of raw",
        assumed: vec![TIMES_ASSUMED, "1 job"],
        reference: "operations/s within 1, 3 and 4 ms; S0: 1.15 M, 200 k, 452 k",
        metric: Metric::Within { mean_ms: &[1, 3, 4] },
        ..preset(id, what, work)
    };
    let eight = |read_percent| PresetStep {
        block_bytes: 8 * KIB,
        block_in_source: "8K",
        read_percent,
        jobs: 1,
        ..BASE
    };
    vec![
        oltp("oltp-100r", "databases: 4 KiB random reads, by queue depth", sweep(100)),
        oltp("oltp-100w", "databases: 4 KiB random writes, by queue depth", sweep(0)),
        oltp("oltp-7030", "databases: 4 KiB random, 70 % reads, by queue depth", sweep(70)),
        Preset {
            setting: TWO_OR_THREE,
            ..oltp(
                "oltp-8k",
                "databases: 8 KiB random, 80 % and 70 % reads, by queue depth",
                work([depths(eight(80)), depths(eight(70))].concat()),
            )
        },
        Preset {
            source: "S1",
            setting: "one node, and a cluster",
            assumed: vec![TIMES_ASSUMED, "70 % reads", "1 job", DEPTH_ASSUMED],
            reference: "above 500 k operations/s of a cluster and 200 k of a node, within 5 ms",
            metric: Metric::Gates { rates: [200_000.0, 500_000.0], mean_ms: 5 },
            ..preset(
                "ccic-db",
                "a bank's database: 8 KiB random, mixed",
                work(vec![PresetStep { block_in_source: "8 KB", ..eight(70) }]),
            )
        },
    ]
}

/// Each size with three mixes.
fn appendix_b() -> Vec<Preset> {
    let sizes = [
        ("small", 4 * KIB, "4 KB", RANDOM, 32, "4 KiB random"),
        ("medium", MIB, "1 MB", SEQUENTIAL, 32, "1 MiB sequential"),
        ("large", 32 * MIB, "32 MB", SEQUENTIAL, 8, "32 MiB sequential"),
    ];
    let mut presets = Vec::new();
    for (size, block_bytes, block_in_source, pattern, depth, words) in sizes {
        for write_percent in [90, 50, 10] {
            let read_percent = 100 - write_percent;
            let step = PresetStep {
                block_bytes,
                block_in_source,
                read_percent,
                pattern,
                jobs: 50,
                depth,
                rate: None,
                mixture: None,
                volumes: None,
            };
            let size_bytes = Some(50 * 25_000_000_000);
            let clients = APPENDIX_B_CLIENTS;
            let work = BlockWork { size_bytes, clients, steps: vec![step], ..WORK };
            presets.push(Preset {
                source: "S0, appendix B",
                setting: "50 volumes of 25 GB, prefilled, 10 of each of 5 clients; groups = drives × 100 ÷ copies; journal of 10 GB, one for 5 drives",
                assumed: Vec::new(),
                reference: "operations/s and latency; MB/s of medium and large",
                ..preset(
                    &format!("appb-{size}-{write_percent}w"),
                    &format!("{words}, {write_percent} % writes"),
                    PresetWork::Block(work),
                )
            });
        }
    }
    presets
}

fn flash_arrays() -> Vec<Preset> {
    let step = |block_kib: usize, block_in_source, read_percent, pattern| PresetStep {
        block_bytes: block_kib * KIB,
        block_in_source,
        read_percent,
        pattern,
        ..BASE
    };
    let steps = vec![
        step(4, "4K", 100, RANDOM),
        step(8, "8K", 100, RANDOM),
        step(16, "16K", 100, RANDOM),
        step(4, "4K", 0, RANDOM),
        step(8, "8K", 0, RANDOM),
        step(4, "4K", 50, RANDOM),
        step(128, "128K", 100, SEQUENTIAL),
        step(128, "128K", 0, SEQUENTIAL),
    ];
    vec![Preset {
        source: "S1",
        setting: "2 copies, journals on NVMe of their own",
        assumed: vec![TIMES_ASSUMED, DEPTH_ASSUMED, JOBS_ASSUMED, "4 KiB for the mixed load"],
        reference: "S1: reads 1.08 M at 3.5 ms, 500 k at 8.8 ms, 300 k at 10 ms; writes 144 k, 132 k; 5248 and 1927 MB/s",
        ..preset(
            "idf16",
            "an all-flash array: random of 4, 8, 16 KiB, sequential of 128 KiB",
            work(steps),
        )
    }]
}

fn clients() -> Vec<Preset> {
    let step = |read_percent, pattern| PresetStep {
        block_bytes: 2 * MIB,
        block_in_source: "2M",
        read_percent,
        pattern,
        jobs: 1,
        depth: 64,
        rate: None,
        mixture: None,
        volumes: None,
    };
    let steps =
        vec![step(100, RANDOM), step(100, SEQUENTIAL), step(0, RANDOM), step(0, SEQUENTIAL)];
    let windows = BlockWork { size_bytes: Some(8 << 30), ramp_s: 5, duration_s: 60, steps, ..WORK };
    let file = BlockWork { needs: "a file of a mounted file system", ..windows.clone() };
    let guest = BlockWork {
        needs: "a block target, inside a guest",
        steps: vec![step(100, SEQUENTIAL), step(0, SEQUENTIAL)],
        ..windows.clone()
    };
    vec![
        Preset {
            source: "S4, table W09",
            setting: "one host, storage in memory, cache off",
            assumed: vec!["5 s of ramp and 60 s measured, where the source's fio ends after 8 GiB"],
            reference: "MB/s of S4's table W09",
            ..preset(
                "win-2m-qd64",
                "2 MiB at depth 64 on a raw device of 8 GiB, random and sequential",
                PresetWork::Block(windows),
            )
        },
        Preset {
            source: "S4, table W09",
            setting: "a file of 8 GiB in a mounted file system, as --target PATH: `truncate -s 8GiB PATH` makes it; cache off",
            assumed: vec!["5 s of ramp and 60 s measured, where the source's fio ends after 8 GiB"],
            reference: "MB/s of S4's table W09, by file system",
            ..preset(
                "file-2m-qd64",
                "2 MiB at depth 64 on a file of a mounted file system, random and sequential",
                PresetWork::Block(file),
            )
        },
        Preset {
            source: "S4, W10",
            setting: "inside a guest: start this program there, on the disk that the guest sees; cache off",
            assumed: vec![
                "5 s of ramp and 60 s measured, where the source's fio ends after 8 GiB",
                "sequential",
            ],
            reference: "MB/s of S4's W10",
            ..preset(
                "vm-guest",
                "win-2m-qd64 inside a guest: 2 MiB at depth 64, reads and writes",
                PresetWork::Block(guest),
            )
        },
    ]
}

fn workers() -> Vec<Preset> {
    let workers = [1, 2, 3, 4, 8, 16, 32];
    let workers = BlockWork {
        fill: false,
        ramp_s: 2,
        duration_s: 10,
        needs: "null:SIZE, or any block target",
        steps: workers.map(|jobs| PresetStep { jobs, ..BASE }).to_vec(),
        ..WORK
    };
    vec![Preset {
        source: "S4, W11",
        setting: "null back end: use --target null:SIZE",
        assumed: vec!["4 KiB random reads", DEPTH_ASSUMED, "2 s of ramp and 10 s measured"],
        reference: "S4's curve W11: the knee lies at the number of physical cores",
        metric: Metric::Knee { percent: 5.0 },
        ..preset("null-workers", "1 to 32 workers on a null back end", PresetWork::Block(workers))
    }]
}

/// A step with operations of these sorts.
fn mixed(step: PresetStep, parts: &[MixturePart]) -> PresetStep {
    let mixture = Mixture::of(parts).expect("shares of presets are 100 % together");
    PresetStep { mixture: Some(mixture), read_percent: mixture.read_percent(), ..step }
}

fn mixtures() -> Vec<Preset> {
    let stores = PresetStep { block_in_source: "16 KiB reads, 128 KiB appends", ..BASE };
    let stores = mixed(
        stores,
        &[
            MixturePart { percent: 50, bytes: 16 * KIB, ..MixturePart::BASE },
            MixturePart {
                percent: 50,
                is_read: false,
                bytes: 128 * KIB,
                pattern: SEQUENTIAL,
                ..MixturePart::BASE
            },
        ],
    );
    let write = |percent, kib: usize, durable, compression_ratio| MixturePart {
        percent,
        is_read: false,
        bytes: kib * KIB,
        durable,
        compression_ratio,
        ..MixturePart::BASE
    };
    let aggregate = PresetStep { block_in_source: "8 to 32 KiB", ..BASE };
    let aggregate = mixed(
        aggregate,
        &[
            write(10, 8, true, 1.0),
            write(10, 8, false, 1.0),
            write(5, 8, true, 2.0),
            write(5, 8, false, 2.0),
            write(5, 16, true, 2.0),
            write(5, 16, false, 2.0),
            write(30, 32, true, 2.0),
            write(30, 32, false, 2.0),
        ],
    );
    vec![
        Preset {
            source: "S0, table 2",
            assumed: vec![
                TIMES_ASSUMED,
                DEPTH_ASSUMED,
                JOBS_ASSUMED,
                "sizes, patterns, and half of the operations each",
            ],
            reference: "MB/s, and p99 of reads",
            metric: Metric::Streams,
            ..preset(
                "nosql",
                "column stores: random reads beside a sequential append",
                work(vec![stores]),
            )
        },
        Preset {
            source: "S2, H04 and H05",
            setting: "the measured system compresses",
            assumed: vec![
                TIMES_ASSUMED,
                DEPTH_ASSUMED,
                JOBS_ASSUMED,
                "20 % of the writes 8 KiB that do not compress; 10, 10 and 60 % of 8, 16 and 32 KiB, 2:1; half of each durable (write-through), half not (write-back)",
            ],
            reference: "S2's counters: bytes to the drives for each written, and whether stripes are full",
            ..preset("aggregate", "compressed writes of mixed sizes", work(vec![aggregate]))
        },
    ]
}

fn lives() -> Vec<Preset> {
    let lives = Lives {
        volumes: 1000,
        at_once: 50,
        size_bytes: 1 << 30,
        io_bytes: 16 << 20,
        block_bytes: 2 * MIB,
        depth: 64,
    };
    vec![Preset {
        source: "S4, W12",
        setting: "any",
        assumed: vec!["16 MiB of each volume are written and read back"],
        reference: "S4: 283.5 s in all, and means of each function; no errors",
        metric: Metric::Wall { seconds: 283.5 },
        ..preset(
            "scale-1000x50",
            "1000 volumes, 50 at a time: create, map, wait, load, unmap, remove",
            PresetWork::Lives(lives),
        )
    }]
}

/// Loads on volumes of a daemon, with what is done to these meanwhile.
fn volumes() -> Vec<Preset> {
    let needs = "a daemon of Varve: volumes:SIZE";
    let desktop = PresetStep { read_percent: 70, ..BASE };
    let calm = VolumeWork::default();
    let busy =
        VolumeWork { snapshot_every_s: Some(60), clone_one_in: Some(10), ..VolumeWork::default() };
    let infrastructure = BlockWork {
        needs,
        steps: [calm, busy]
            .map(|volumes| PresetStep { volumes: Some(volumes), ..desktop })
            .to_vec(),
        ..WORK
    };
    let clones = VolumeWork { own_percent: Some(20), ..VolumeWork::default() };
    let reduced = BlockWork {
        needs,
        compression_ratio: Some(2.0),
        steps: vec![PresetStep { jobs: 50, volumes: Some(clones), ..desktop }],
        ..WORK
    };
    vec![
        Preset {
            source: "S0, table 2",
            setting: "3 copies and snapshots, 60 % full",
            assumed: vec![
                TIMES_ASSUMED,
                DEPTH_ASSUMED,
                JOBS_ASSUMED,
                "70 % reads; a snapshot of each volume at the beginning and every 60 s; a clone for 10 volumes; bound of the drop: 20 %",
            ],
            reference: "operations/s of the second load, with snapshots, beside the first: less than 20 % fewer",
            metric: Metric::Drop { percent: 20.0 },
            ..preset(
                "virtinfra",
                "virtual infrastructure: 4 KiB random without snapshots and with them",
                PresetWork::Block(infrastructure),
            )
        },
        Preset {
            source: "S2",
            setting: "deduplication and compression on",
            assumed: vec![
                TIMES_ASSUMED,
                DEPTH_ASSUMED,
                "20 % unique blocks; compressible 2:1; 70 % reads of 4 KiB at random on what each clone wrote itself",
            ],
            reference: "3:1 or more by clones and deduplication, 2:1 by compression",
            ..preset(
                "reduce-vdi",
                "desktops cloned from one, then diverging: 50 volumes",
                PresetWork::Block(reduced),
            )
        },
    ]
}

/// 4 MB objects of RADOS, as `rados bench` has them.
fn native() -> Vec<Preset> {
    let preset_of = |id, what, read_percent, pattern, depths: [u32; 3], reference| {
        let step = |depth| PresetStep {
            block_bytes: 4 * MIB,
            block_in_source: "4 MB, which rados bench means as MiB",
            read_percent,
            pattern,
            jobs: 1,
            depth,
            ..BASE
        };
        let work = BlockWork {
            size_bytes: Some(8 << 30),
            fill: read_percent > 0,
            needs: "a pool of Ceph: rados:POOL, or any block target",
            steps: depths.map(step).to_vec(),
            ..WORK
        };
        Preset {
            source: "S3",
            setting: "3 copies on disks, EC 4+2 on flash",
            assumed: vec![
                TIMES_ASSUMED,
                "2048 objects, written again and again where rados bench goes on to new ones",
                "beside its default of 16 under way those that S3's figures mean by Little's law",
            ],
            reference,
            ..preset(id, what, PresetWork::Block(work))
        }
    };
    vec![
        preset_of(
            "rados-4m-write",
            "4 MB native objects: writes",
            0,
            SEQUENTIAL,
            [16, 224, 310],
            "S3: 25,800 MB/s at 48 ms on flash, 506 MB/s at 1,760 ms on disks",
        ),
        preset_of(
            "rados-4m-seq",
            "4 MB native objects: sequential reads",
            100,
            SEQUENTIAL,
            [16, 224, 460],
            "S3, reads: 52,540 MB/s at 35 ms on flash, 3,055 MB/s at 290 ms on disks",
        ),
        preset_of(
            "rados-4m-rand",
            "4 MB native objects: random reads",
            100,
            RANDOM,
            [16, 224, 460],
            "S3, reads: 52,540 MB/s at 35 ms on flash, 3,055 MB/s at 290 ms on disks",
        ),
    ]
}

/// Loads that are run under settings of the measured system, which the user names.
fn settings() -> Vec<Preset> {
    let needs = "a block target, and --setting NAME=COMMAND for each setting";
    let reads = BlockWork { needs, steps: vec![BASE], ..WORK };
    let reduced = PresetStep { read_percent: 0, ..BASE };
    let reduced = BlockWork { needs, compression_ratio: Some(2.0), steps: vec![reduced], ..WORK };
    vec![
        Preset {
            source: "S1",
            setting: "read-ahead 2048 KB against 16 KB; threads of operations default against 32; of clients default against 4: --setting for each",
            assumed: vec![TIMES_ASSUMED, DEPTH_ASSUMED, JOBS_ASSUMED],
            reference: "S1: +55 %, +11 %, +11 %: 1.91 times together",
            ..preset(
                "readahead-ab",
                "4K random reads under settings of the system, compared",
                PresetWork::Block(reads),
            )
        },
        Preset {
            source: "S2",
            setting: "compression and fingerprint in one pass against two, where the measured system can do both: --setting for each; deduplication and compression on",
            assumed: vec![
                TIMES_ASSUMED,
                DEPTH_ASSUMED,
                JOBS_ASSUMED,
                "4 KiB random writes, compressible 2:1",
            ],
            reference: "S2: +40 %",
            ..preset(
                "reduce-fused",
                "writes that are reduced, under settings of the system, compared",
                PresetWork::Block(reduced),
            )
        },
    ]
}

/// Loads on a path of replication, once for each transport.
fn transports() -> Vec<Preset> {
    let preset_of = |id, what, block_bytes, block_in_source, reference| {
        let step = |read_percent| PresetStep {
            block_bytes,
            block_in_source,
            read_percent,
            jobs: 1,
            depth: 256,
            ..BASE
        };
        let work = BlockWork {
            needs: "a target that replicates: rbd:POOL/IMAGE, rados:POOL, an export",
            steps: vec![step(0), step(100)],
            ..WORK
        };
        Preset {
            source: "S2",
            setting: "once for each transport, or --setting for each; `report page` sets them side by side",
            assumed: vec![TIMES_ASSUMED, "random, writes and then reads"],
            reference,
            ..preset(id, what, PresetWork::Block(work))
        }
    };
    vec![
        preset_of(
            "net-4k-256",
            "4 K with 256 under way, by transport",
            4 * KIB,
            "4 K",
            "S2: latency 3 to 14 % below kernel TCP",
        ),
        preset_of(
            "net-1m-256",
            "1 M with 256 under way, by transport",
            MIB,
            "1 M",
            "S2: +10 % and -4 % of kernel TCP's MB/s",
        ),
    ]
}
