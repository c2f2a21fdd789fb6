//! A layout as configuration: of Ceph, and of Varve on one of its nodes or in front of Ceph.

use std::fmt::Write;

use crate::demand::FailureDomain;
use crate::layout::Layout;
use crate::protection::Protection;
use crate::units::Amount;

/// Settings for `ceph.conf`, and the commands that create the pool, for a Ceph whose OSDs are of BlueStore.
#[must_use]
pub fn ceph(layout: &Layout) -> String {
    let groups = layout.placement_groups.count;
    // What stands in the file is for every pool, also those that Ceph and its gateways create for themselves: the
    // planned pool's own settings are in the commands.
    let mut text = format!(
        "# ceph.conf: {} nodes {}, {} OSDs, {}\n[global]\nosd_pool_default_size = 3\nosd_pool_default_min_size = 2\n",
        layout.nodes, layout.node, layout.osds, layout.protection
    );
    text.push_str(
        "\n# Once the cluster is up: fill ratios are kept in its map, and in a file only count while it is created.\n\
         # ceph osd set-nearfull-ratio 0.75\n# ceph osd set-backfillfull-ratio 0.85\n# ceph osd set-full-ratio 0.90\n",
    );
    if let Some(counts) = journals_on_drives(layout) {
        let _ = writeln!(
            text,
            "\n# OSDs whose block.db goes on each journal drive of a node: {counts}"
        );
    }
    let domain = match layout.failure_domain {
        FailureDomain::Node => "host",
        FailureDomain::Drive => "osd",
    };
    let class = if layout.media.is_flash() { "ssd" } else { "hdd" };
    let _ = writeln!(
        text,
        "\n# The pool. `ceph osd crush class ls` shows the device classes: replace {class} if the drives have another, such as nvme."
    );
    let _ = match layout.protection {
        Protection::Copies(copies) => writeln!(
            text,
            "# ceph osd crush rule create-replicated varve default {domain} {class}\n\
             # ceph osd pool create varve-data {groups} {groups} replicated varve\n\
             # ceph osd pool set varve-data size {copies}"
        ),
        Protection::Erasure { data, parity } => writeln!(
            text,
            "# ceph osd erasure-code-profile set varve k={data} m={parity} crush-failure-domain={domain} crush-device-class={class}\n\
             # ceph osd pool create varve-data {groups} {groups} erasure varve"
        ),
    };
    text
}

/// Journals on each journal drive of a node, where it has such drives.
fn journals_on_drives(layout: &Layout) -> Option<String> {
    let counts = &layout.journals.as_ref()?.on_each_drive;
    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
    (!counts.is_empty()).then(|| counts.join(" + "))
}

/// `varve.toml` of what is planned: of one node, with its drives by paths that are still to be filled in, where there
/// is one copy, or copies and strips are those of the drives of one machine; else of a machine in front of Ceph, which
/// keeps them, with the commands that create the pool.
#[must_use]
pub fn varve(layout: &Layout) -> String {
    match class_on_drives(layout) {
        Some(class) => on_drives(layout, &class),
        None => on_rados(layout),
    }
}

/// How Varve keeps data on the drives of one machine as is planned; `None` where the plan has them on several machines,
/// or otherwise than Varve can on these drives.
fn class_on_drives(layout: &Layout) -> Option<String> {
    let is_one_machine = layout.nodes == 1;
    let has_drives = layout.drives_per_node >= u64::from(layout.protection.width());
    match layout.protection {
        Protection::Copies(1) => Some("none".to_owned()),
        Protection::Copies(copies @ 2..=5) if is_one_machine && has_drives => {
            Some(format!("mirror:{copies}"))
        }
        Protection::Erasure { data: data @ 2..=12, parity: parity @ 1..=4 }
            if is_one_machine && has_drives =>
        {
            Some(format!("ec:{data}+{parity}"))
        }
        Protection::Copies(_) | Protection::Erasure { .. } => None,
    }
}

/// What the drives of one machine survive, and what is left of them: where there are more than parts of the data, one
/// is kept free for what a lost one had.
fn on_one_machine(layout: &Layout, class: &str) -> String {
    let tolerates = layout.protection.tolerates();
    if tolerates == 0 {
        return "# One copy, on the drives of one machine: a drive that is lost loses data. Each node is a pool of its own.\n".to_owned();
    }
    let drives = layout.drives_per_node;
    let has_spare = drives > u64::from(layout.protection.width());
    let kept = crate::rounding::real(if has_spare { drives - 1 } else { drives });
    let share = 100.0 * kept / crate::rounding::real(drives) / layout.protection.overhead();
    let spare = if has_spare {
        ", the room of one drive being kept free to rebuild a lost one"
    } else {
        ""
    };
    let plural = if tolerates == 1 { "" } else { "s" };
    format!(
        "# {class} over the drives of one machine: it survives {tolerates} lost drive{plural}, and holds {share:.0} % of them{spare}.\n\
         # The loss of the machine takes the pool away until its drives are in another one.\n"
    )
}

fn on_drives(layout: &Layout, class: &str) -> String {
    let drive = layout.raw_bytes / crate::rounding::real(layout.nodes * layout.drives_per_node);
    let gib = (drive.base() / 1_073_741_824.0).floor();
    let mut text = format!(
        "# varve.toml of one of {} nodes {}: fill in the paths\n{}",
        layout.nodes,
        layout.node,
        on_one_machine(layout, class)
    );
    if journals_on_drives(layout).is_some() {
        text.push_str(
            "# Journals lie on these drives; the journal drives of the plan stay unused.\n",
        );
    }
    let _ = writeln!(text, "\n[pool]\nprotect = \"{class}\"");
    for number in 1..=layout.drives_per_node {
        let _ = writeln!(
            text,
            "\n[[drive]]\npath = \"/dev/disk/by-id/{}-{number}\"\nsize = \"{gib}GiB\"",
            layout.drive
        );
    }
    text
}

/// Copies and strips are Ceph's: those that Varve keeps are on the drives of one machine, and one daemon serves the
/// pool.
fn on_rados(layout: &Layout) -> String {
    let copies = layout.protection.tolerates() + 1;
    format!(
        "# varve.toml of a machine in front of {} nodes {} of Ceph, which keep {}: it has no [[drive]]\n\
         # Varve keeps copies and strips over the drives of one machine, and does not form a cluster: those of several machines are of pools of RADOS, and one daemon serves a pool.\n\
         # `--config ceph` prints the pool varve-data. Then, with journals and roots in copies:\n\
         # ceph osd pool create varve-meta 32 32 replicated\n\
         # ceph osd pool set varve-meta size {copies}\n\
         # varve pool rados-caps --data-pool varve-data --meta-pool varve-meta\n\
         # varve pool create --data /var/lib/varve --rados /etc/ceph/ceph.conf --data-pool varve-data --meta-pool varve-meta\n\
         # varve serve --data /var/lib/varve\n",
        layout.nodes, layout.node, layout.protection
    )
}
