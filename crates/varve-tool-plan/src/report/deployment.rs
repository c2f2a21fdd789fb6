//! A layout as configuration: of Ceph, and of Varve on one of its nodes.

use std::fmt::Write;

use crate::layout::Layout;
use crate::protection::Protection;
use crate::units::Amount;

/// Settings for `ceph.conf`, and the commands that make the pool.
#[must_use]
pub fn ceph(layout: &Layout) -> String {
    let groups = layout.placement_groups.count;
    let (size, least) = match layout.protection {
        Protection::Copies(copies) => (copies, copies.saturating_sub(1).max(1)),
        Protection::Erasure { data, parity } => (data + parity, data + 1),
    };
    let mut text = format!(
        "# ceph.conf: {} nodes {}, {} OSDs, {}\n[global]\nosd_pool_default_size = {size}\n\
         osd_pool_default_min_size = {least}\nosd_pool_default_pg_num = {groups}\n\
         mon_osd_nearfull_ratio = 0.75\nmon_osd_full_ratio = 0.90\n",
        layout.nodes, layout.node, layout.osds, layout.protection
    );
    if let Some(journals) = &layout.journals {
        let mib = (journals.size_bytes.base() / 1_048_576.0).ceil();
        let _ = writeln!(text, "# of FileStore, in MiB\nosd_journal_size = {mib}");
    }
    text.push_str("\n# the pool\n");
    let _ = match layout.protection {
        Protection::Copies(copies) => writeln!(
            text,
            "# ceph osd pool create varve {groups} {groups} replicated\n# ceph osd pool set varve size {copies}"
        ),
        Protection::Erasure { data, parity } => writeln!(
            text,
            "# ceph osd erasure-code-profile set varve k={data} m={parity} crush-failure-domain=host\n\
             # ceph osd pool create varve {groups} {groups} erasure varve"
        ),
    };
    text
}

/// `varve.toml` of one node: its drives, by paths that are still to be filled in.
#[must_use]
pub fn varve(layout: &Layout) -> String {
    let drive = layout.raw_bytes / crate::rounding::real(layout.nodes * layout.drives_per_node);
    let gib = (drive.base() / 1_073_741_824.0).floor();
    let mut text = format!(
        "# varve.toml of one of {} nodes {}: fill in the paths\n",
        layout.nodes, layout.node
    );
    for number in 1..=layout.drives_per_node {
        let _ = writeln!(
            text,
            "\n[[drive]]\npath = \"/dev/disk/by-id/{}-{number}\"\nsize = \"{gib}GiB\"",
            layout.drive
        );
    }
    text
}
