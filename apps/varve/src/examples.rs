//! Examples for the help page of each command: what people copy first. A test parses every one of them.

use clap::{Command, CommandFactory};

use crate::command_line::Cli;

/// The words of a command, and command lines that use it.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "serve",
        &[
            "varve serve",
            "varve serve --data /srv/varve --drive /dev/nvme0n1 --nbd 127.0.0.1:10809",
            "varve serve --data /srv/varve --read-only",
        ],
    ),
    (
        "volume create",
        &[
            "varve volume create vm1 --size 20GiB",
            "varve volume create images --size 1TiB --dedup on --compression zstd:3",
        ],
    ),
    ("volume list", &["varve volume list", "varve volume list --space"]),
    ("volume show", &["varve volume show vm1"]),
    (
        "volume resize",
        &["varve volume resize vm1 --size 40GiB", "varve volume resize vm1 --size 10GiB --shrink"],
    ),
    (
        "volume set",
        &[
            "varve volume set vm1 --compression zstd:3",
            "varve volume set vm1 --quota 10GiB --reservation none",
        ],
    ),
    ("volume delete", &["varve volume delete vm1", "varve volume delete vm1 vm2 --snapshots"]),
    ("volume clone", &["varve volume clone vm1@monday vm1-test", "varve volume clone vm1 vm2"]),
    ("volume clients", &["varve volume clients", "varve volume clients vm1 --json"]),
    ("volume disconnect", &["varve volume disconnect vm1"]),
    ("volume flatten", &["varve volume flatten vm1-test"]),
    (
        "volume diff",
        &[
            "varve volume diff vm1 --from monday",
            "varve volume diff vm1 --from monday --to tuesday --json",
        ],
    ),
    (
        "volume export",
        &[
            "varve volume export vm1@monday monday.varve",
            "varve volume export vm1 - | zstd > vm1.varve.zst",
        ],
    ),
    (
        "volume import",
        &["varve volume import monday.varve vm1", "varve volume import rbd:rbd/image1 vm1"],
    ),
    ("volume export-diff", &["varve volume export-diff vm1@tuesday tuesday.diff --from monday"]),
    ("volume import-diff", &["varve volume import-diff tuesday.diff vm1"]),
    (
        "volume snapshot create",
        &[
            "varve volume snapshot create vm1@monday",
            "varve volume snapshot create db@noon logs@noon",
        ],
    ),
    (
        "volume snapshot list",
        &["varve volume snapshot list", "varve volume snapshot list vm1 --space"],
    ),
    ("volume snapshot delete", &["varve volume snapshot delete vm1@monday"]),
    ("volume snapshot rollback", &["varve volume snapshot rollback vm1@monday"]),
    ("volume snapshot protect", &["varve volume snapshot protect vm1@monday"]),
    ("volume snapshot unprotect", &["varve volume snapshot unprotect vm1@monday"]),
    (
        "bucket create",
        &[
            "varve bucket create photos",
            "varve bucket create logs --owner ann --quota 100GiB --versioning",
        ],
    ),
    (
        "bucket set",
        &["varve bucket set photos --dedup on", "varve bucket set logs --compression zstd:3"],
    ),
    ("bucket list", &["varve bucket list"]),
    ("bucket show", &["varve bucket show photos"]),
    (
        "bucket quota",
        &[
            "varve bucket quota photos --size 100GiB",
            "varve bucket quota photos --size none --objects none",
        ],
    ),
    ("bucket log", &["varve bucket log photos on"]),
    ("bucket delete", &["varve bucket delete photos"]),
    (
        "user create",
        &["varve user create ann --quota 1TiB", "varve user create backup --policy policy.json"],
    ),
    ("user list", &["varve user list"]),
    ("user show", &["varve user show ann"]),
    ("user quota", &["varve user quota ann --size 2TiB --buckets 10"]),
    ("user delete", &["varve user delete ann"]),
    ("user key create", &["varve user key create ann"]),
    ("user key list", &["varve user key list ann"]),
    ("user key delete", &["varve user key delete YNLWZA2IXBAJ23Y5ETLM"]),
    ("user policy show", &["varve user policy show ann"]),
    ("user policy set", &["varve user policy set ann policy.json"]),
    ("user policy clear", &["varve user policy clear ann"]),
    ("node list", &["varve node list"]),
    (
        "pool create",
        &[
            "varve pool create --drive /dev/nvme0n1 --drive /dev/nvme1n1 --drive /dev/nvme2n1",
            "varve pool create --rados /etc/ceph/ceph.conf --data-pool varve-data --meta-pool varve-meta",
        ],
    ),
    (
        "pool attach",
        &[
            "varve pool attach --rados /etc/ceph/ceph.conf --data-pool varve-data --meta-pool varve-meta",
        ],
    ),
    ("pool rados-caps", &["varve pool rados-caps --data-pool varve-data --meta-pool varve-meta"]),
    (
        "pool migrate",
        &[
            "varve pool migrate --to /srv/other/varve-data --dry-run",
            "varve pool migrate --to /srv/other/varve-data --volume vm1",
        ],
    ),
    (
        "pool set",
        &[
            "varve pool set --protect ec:4+2 --dry-run",
            "varve pool set --protect ec:4+2 --wait",
            "varve pool set --data-class ssd,nvme",
            "varve pool set --journal-class nvme",
            "varve pool set --cancel",
        ],
    ),
    ("pool upgrade", &["varve pool upgrade --data /srv/varve"]),
    ("pool show", &["varve pool show", "varve pool show --json"]),
    ("pool keys export", &["varve pool keys export /media/usb/varve.key"]),
    ("pool keys import", &["varve pool keys import /media/usb/varve.key"]),
    ("pool keys renew", &["varve pool keys renew"]),
    ("drive list", &["varve drive list", "varve drive list --json"]),
    ("drive show", &["varve drive show 2", "varve drive show /dev/nvme0n1"]),
    (
        "drive add",
        &[
            "varve drive add /dev/nvme3n1",
            "varve drive add /srv/d=2TiB",
            "varve drive add /dev/vdc --class ssd",
        ],
    ),
    (
        "drive remove",
        &[
            "varve drive remove 2 --wait",
            "varve drive remove 1 --failed",
            "varve drive remove 2 --cancel",
        ],
    ),
    ("drive drain", &["varve drive drain 2", "varve drive drain 2 --cancel"]),
    ("drive replace", &["varve drive replace 2 /dev/nvme4n1", "varve drive replace 2 --cancel"]),
    ("drive grow", &["varve drive grow 2", "varve drive grow 1 --size 4TiB"]),
    (
        "drive set",
        &["varve drive set 2 --class ssd", "varve drive set /dev/vdc --class hdd --wait"],
    ),
    ("drive moves", &["varve drive moves", "varve drive moves --json"]),
    (
        "drive scrub",
        &["varve drive scrub", "varve drive scrub 2 --deep", "varve drive scrub --show"],
    ),
    ("drive locate", &["varve drive locate 2", "varve drive locate 2 --off"]),
    ("health", &["varve health", "varve health --json"]),
    ("df", &["varve df", "varve df --json"]),
    ("status", &["varve status", "varve status --json", "varve status --check"]),
    ("wait", &["varve wait", "varve wait --timeout 300"]),
    ("check", &["varve check", "varve check --online"]),
    ("dump superblock", &["varve dump superblock"]),
    ("dump roots", &["varve dump roots"]),
    ("dump pool", &["varve dump pool"]),
    ("dump lane", &["varve dump lane --shard 0"]),
    ("dump frame", &["varve dump frame 8192 --shard 0"]),
    ("dump segments", &["varve dump segments"]),
    ("dump segment", &["varve dump segment 42"]),
    ("dump map", &["varve dump map vm1"]),
    ("dump drives", &["varve dump drives"]),
    ("dump layout", &["varve dump layout"]),
    ("dump strip", &["varve dump strip 42"]),
    ("dump keys", &["varve dump keys"]),
    ("salvage", &["varve salvage --to rescue", "varve salvage --to rescue --volume vm1"]),
    (
        "plan",
        &[
            "varve plan --workload oltp-7030 --iops 500k --usable 50TB",
            "varve plan --usable 2PB --class capacity --protect 3,4+2,10+4 --rank per-tb",
        ],
    ),
    ("plan pg", &["varve plan pg --osds 80 --size 2"]),
    ("plan journal", &["varve plan journal --disk 100MB/s --net 1250MB/s --sync 5s"]),
    (
        "plan endurance",
        &[
            "varve plan endurance --capacity 800GB --drive-writes 10 --written-per-day 8TB --drives 20",
        ],
    ),
    (
        "plan provision",
        &[
            "varve plan provision --reads-promised 300MB/s --reads-given 100MB/s --reads-speed-up 3 --sold 640TB",
        ],
    ),
    ("plan cost", &["varve plan cost --node micron-6500ion --nodes 6 --protect 4+2"]),
    ("plan compare", &["varve plan compare hdd-nvme micron-6500ion"]),
    ("plan cluster", &["varve plan cluster idf16"]),
    ("plan catalogue", &["varve plan catalogue", "varve plan catalogue --json"]),
    ("bench list", &["varve bench list"]),
    ("bench show", &["varve bench show oltp-7030"]),
    (
        "bench run",
        &[
            "varve bench run --target /dev/nvme0n1 --depth 64 --jobs 4 --duration 60s --repeat 5",
            "varve bench run --target nbd+unix:///vm1?socket=varve-data/nbd.sock --reads 70% --fill --overwrite",
            "varve bench run oltp-7030 --target /dev/nvme0n1 --overwrite --save before",
        ],
    ),
    ("bench scale", &["varve bench scale --volumes 100 --at-once 10"]),
    (
        "bench cosbench",
        &[
            "varve bench cosbench dvr-shared --endpoint http://127.0.0.1:9000 --access-key KEY --secret-file secret",
        ],
    ),
    ("bench import", &["varve bench import fio.json --save before"]),
    ("bench merge", &["varve bench merge one.json two.json --save both"]),
    ("bench ec", &["varve bench ec", "varve bench ec -k 10 -m 4 --lost 1"]),
    ("report list", &["varve report list"]),
    ("report compare", &["varve report compare before after"]),
    ("report page", &["varve report page before"]),
    ("man", &["varve man /usr/local/share/man/man1"]),
    ("completions", &["varve completions bash > /etc/bash_completion.d/varve"]),
];

/// The command line with examples on the help pages.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    for (words, lines) in EXAMPLES {
        let path: Vec<&str> = words.split(' ').collect();
        command = with_example(command, &path, lines);
    }
    command
}

fn with_example(command: Command, path: &[&str], lines: &[&str]) -> Command {
    match path.split_first() {
        None => {
            let text: String = lines.iter().map(|line| format!("\n  {line}")).collect();
            let before = command.get_after_help().map(|before| format!("{before}\n\n"));
            command.after_help(format!("{}Examples:{text}", before.unwrap_or_default()))
        }
        Some((word, rest)) => {
            command.mut_subcommand(word, |command| with_example(command, rest, lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_command_line() {
        for (words, lines) in EXAMPLES {
            assert!(!lines.is_empty(), "{words} has examples");
            for line in *lines {
                assert!(line.starts_with(&format!("varve {words}")), "{line} is about {words}");
                let typed = line.split([' ']).take_while(|word| !["|", ">"].contains(word));
                if let Err(error) = command().try_get_matches_from(typed) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn every_command_that_does_something_has_an_example() {
        fn walk(command: &Command, path: &str, lacking: &mut Vec<String>) {
            for inner in command.get_subcommands() {
                let path = format!("{path} {}", inner.get_name()).trim().to_owned();
                let has_own = inner.get_subcommands().next().is_some();
                let has_example = EXAMPLES.iter().any(|(words, _)| *words == path);
                if !has_own && !has_example && inner.get_name() != "help" {
                    lacking.push(path.clone());
                }
                walk(inner, &path, lacking);
            }
        }
        let mut lacking = Vec::new();
        walk(&command(), "", &mut lacking);
        assert_eq!(lacking, Vec::<String>::new(), "commands without an example");
    }
}
