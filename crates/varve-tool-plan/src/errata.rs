//! Faults of the sources: what they print, and what is used instead. Output cites them by number where they matter.

use serde::Serialize;

/// A fault of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Erratum {
    /// Its number, such as `X01`.
    pub id: &'static str,
    /// Where it is.
    pub source: &'static str,
    /// What is wrong.
    pub fault: &'static str,
    /// What is done here.
    pub answer: &'static str,
}

/// The fault called `id`.
#[must_use]
pub fn of(id: &str) -> Option<&'static Erratum> {
    ERRATA.iter().find(|erratum| erratum.id == id)
}

const GUIDE: &str = "Intel's guide";
const IDF16: &str = "IDF16";
const H3C: &str = "H3C and Intel";
/// Whose comparison of HDDs and NVMe it is.
pub(crate) const MICRON: &str = "Micron's comparison";
const WINDOWS: &str = "Ceph on Windows";

const fn erratum(
    id: &'static str,
    source: &'static str,
    fault: &'static str,
    answer: &'static str,
) -> Erratum {
    Erratum { id, source, fault, answer }
}

/// All of them, by number.
pub const ERRATA: [Erratum; 28] = [
    erratum(
        "X01",
        MICRON,
        "68 HDD nodes for read parity is 68.8 rounded down, while 15.8 and 160.6 are rounded up",
        "the fraction is shown and rounded up: 16, 69, 161",
    ),
    erratum(
        "X02",
        MICRON,
        "writes per usable TB are 10 times in the table and 13 times in the text, where HDD writes are not multiplied by 1.27",
        "10.0 times by 768 TB, 10.1 by the 760 of the source, 12.9 where HDD writes are not multiplied: three lines, each with its basis",
    ),
    erratum(
        "X03",
        MICRON,
        "rates per TB divide rates of 6 HDD nodes, yet the table lists the 192 TB of 4; 16 MB/s a TB needs 288 TB",
        "the basis is 288 TB",
    ),
    erratum(
        "X04",
        MICRON,
        "the drive has 30 TB or 32 TB; only 32 gives 1,152 TB; 30.72 gives 1,105.9 raw and 737 usable, 30 gives 1,080 and 720",
        "capacity is a field of the catalogue",
    ),
    erratum("X05", MICRON, "0.66 stands for 2/3: 760 for 768 TB, 127 for 128 TB a node", "2/3"),
    erratum(
        "X06",
        MICRON,
        "1.5 GB/s read and 1.2 GB/s write of a drive are swapped further down; the cluster's 1.46 GB/s a drive confirms the first",
        "1.5 read, 1.2 write",
    ),
    erratum(
        "X07",
        GUIDE,
        "numactl's option is printed `--mem-bind`",
        "nothing uses it; the option is `--membind`",
    ),
    erratum(
        "X08",
        MICRON,
        "46 times W per GB/s of writes uses the raw 506 MB/s, 27 times throughput the normalised 964; 2 times W/TB is per raw TB; the memory of the NVMe node is missing in one table",
        "each figure names its basis: 46.5 times raw, 36.6 normalised",
    ),
    erratum(
        "X09",
        GUIDE,
        "112 IOPS for two copies of 4K random writes does not follow: 3358 ÷ 40 × 2 is 168",
        "168",
    ),
    erratum(
        "X10",
        GUIDE,
        "2 journal SSDs of 5 partitions against \"(3, 3, 4)\", which is three SSDs; ratios 1:4 and 1:5, 1:12 and 1:16 in different places",
        "the ratio is a parameter",
    ),
    erratum(
        "X11",
        GUIDE,
        "lines of memory modules do not multiply to the size; Xeon D has twice the drives and links of E3, so \"2.5 times\" compares no processors",
        "sizes are taken from the line of sizes; 2.5 is never a factor",
    ),
    erratum(
        "X12",
        GUIDE,
        "names of options in appendix B are misspelt, `nobarrier` is unsafe, values differ from table 10",
        "nothing uses them: no profile of Ceph's options comes with it",
    ),
    erratum(
        "X13",
        IDF16,
        "5248 MB/s supposedly fills two 10GbE ports a node: 5 nodes carry 12.5 GB/s, of which it is 42 %",
        "use of each link is shown",
    ),
    erratum(
        "X14",
        IDF16,
        "\"about 60 %\" write efficiency would be 162 K; the measured 144 K is 53.3 %",
        "0.533 unless set otherwise; both are shown",
    ),
    erratum(
        "X15",
        IDF16,
        "the unit of read-ahead is asked for and not answered",
        "nothing sets it; Linux counts KB, as `read_ahead_kb`",
    ),
    erratum(
        "X16",
        GUIDE,
        "54 cores a node: two processors of 18 are 36, with 72 threads",
        "36 and 72",
    ),
    erratum(
        "X17",
        GUIDE,
        "70:30 gives 452 K at 3 ms, 400 K at 3 ms and more than 400 K at 4 ms in different places",
        "all three are in the catalogue",
    ),
    erratum(
        "X18",
        GUIDE,
        "table 2 is titled for DVR, VOD and backup and lists block profiles; three copies for OLTP where use case 3 has two",
        "titles corrected; copies are a parameter",
    ),
    erratum(
        "X19",
        GUIDE,
        "figure 9 has 40 volumes and 4 clients, appendix B 50 and 5",
        "two presets",
    ),
    erratum(
        "X20",
        GUIDE,
        "\"data units read\" stands at byte 21; the NVMe specification has 32",
        "nothing reads it; byte 32",
    ),
    erratum(
        "X21",
        GUIDE,
        "the column \"bit rate\" of table 12 holds MB of a segment",
        "sizes of objects",
    ),
    erratum(
        "X22",
        GUIDE,
        "at most 10 % of a cluster in one node, and example clusters of 4 and 5 nodes; Yahoo's has two monitors",
        "plans below the minimum carry a warning",
    ),
    erratum(
        "X23",
        GUIDE,
        "10+4 saves \"up to 50 %\" against three copies: 53.3 %; \"triple RAID\" is three copies",
        "53.3 %",
    ),
    erratum(
        "X24",
        GUIDE,
        "the data set of small objects, 1.28 GB, fits in memory; \"random\" of containers is not defined",
        "plans for such objects say so; uniform",
    ),
    erratum(
        "X25",
        WINDOWS,
        "the sentence on power plans is reversed; the sample file has two `[global]` sections; `total_ios` and `dropped_ios` come from `short_ios`",
        "nothing of it is read; sections of fio's job files may be repeated",
    ),
    erratum(
        "X26",
        H3C,
        "two statements on VPP contradict each other, RDMA's gains have no base figures, and there are no IOPS",
        "none of its figures is used",
    ),
    erratum(
        "X27",
        H3C,
        "SHA-1 alone identifies duplicates",
        "128 bits of keyed BLAKE3; what matches is not compared",
    ),
    erratum(
        "X28",
        GUIDE,
        "a cache of 1.5 TB for 80 TB is 1.875 %, printed as 2 %, which 1.6 TB would be",
        "both",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_their_places() {
        for (index, erratum) in ERRATA.iter().enumerate() {
            assert_eq!(erratum.id, format!("X{:02}", index + 1));
            assert_eq!(of(erratum.id), Some(erratum));
        }
        assert_eq!(of("X29"), None);
    }

    #[test]
    fn what_is_not_here_is_not_claimed() {
        for id in ["X07", "X12", "X15", "X20", "X25", "X26"] {
            let answer = of(id).unwrap().answer;
            assert!(answer.starts_with("nothing ") || answer.starts_with("none "), "{id} {answer}");
        }
    }

    #[test]
    fn the_document_lists_each() {
        let document = include_str!("../../../docs/plan.md");
        for Erratum { id, source, fault, answer } in ERRATA {
            let row = format!("| {id} | {source} | {fault} | {answer} |");
            assert!(document.contains(&row), "docs/plan.md lacks\n{row}");
        }
        for number in 1..=19 {
            assert!(document.contains(&format!("\n| F{number} | ")), "F{number}");
        }
    }
}
