//! What may go wrong with a layout, or is not known about it, in sentences.

use crate::catalogue::Class;
use crate::demand::FailureDomain;
use crate::layout::{DriveWork, Layout, Parts};
use crate::protection::Protection;
use crate::rebuild::{Rebuild, Recovery};
use crate::units::{Amount, Bytes};

/// Fill at which Ceph warns, by VSM's thresholds.
const NEAR_FULL: f64 = 0.75;

/// Use of a link beyond which bursts queue.
const LINK_BUSY: f64 = 0.8;

/// Part of the cache for metadata that is enough: what is short by less is how sizes are rounded.
const CACHE_ENOUGH: f64 = 0.99;

/// All of a layout's.
pub(crate) fn of_layout(parts: Parts<'_>, layout: &Layout) -> Vec<String> {
    let mut risks = Vec::new();
    of_protection(parts, layout, &mut risks);
    of_journals(parts, layout, &mut risks);
    of_cache(parts, layout, &mut risks);
    of_figures(parts, layout, &mut risks);
    let filled = layout.filled.base();
    if filled > NEAR_FULL {
        risks.push(format!(
            "filled to {} at the end, beyond the near-full mark of 75 %",
            layout.filled
        ));
    }
    let others = 1.0 - 1.0 / crate::rounding::real(layout.nodes);
    if filled > others * crate::rebuild::FULL {
        risks
            .push("a lost node cannot be rebuilt: the others have no room for its data".to_owned());
    }
    if layout.traffic.used.base() > LINK_BUSY {
        risks.push(format!("links are used to {}: bursts queue", layout.traffic.used));
    }
    risks
}

fn of_protection(parts: Parts<'_>, layout: &Layout, risks: &mut Vec<String>) {
    let tolerates = layout.protection.tolerates();
    if tolerates == 0 {
        risks.push("one copy: the loss of any drive loses data".to_owned());
    }
    if tolerates == 1 {
        let rebuild = match layout.rebuild.drive {
            Rebuild { recovery: Recovery::Spread, seconds: Some(time), .. } => {
                format!(" for {time}")
            }
            Rebuild { recovery: Recovery::Spread, .. } => String::new(),
            _ => " until it is replaced and rebuilt".to_owned(),
        };
        risks.push(format!(
            "after the loss of a drive a second loss loses data{rebuild}; table 2 of Intel's guide has 3 copies"
        ));
    }
    if parts.policy.private_copy && layout.protection.overhead() > 1.0 {
        risks.push(
            "private copies: the source forbids a second copy of a user's data for any reason"
                .to_owned(),
        );
    }
    if parts.policy.private_copy && parts.policy.reduction_ratio > 1.0 {
        risks.push("private copies: reduction is not counted".to_owned());
    }
    of_width(layout, risks);
    let operations = parts.demand.operations();
    if let Protection::Erasure { data, .. } = layout.protection
        && operations.writes.base() > 0.0
        && parts.demand.block_bytes.base() < 4096.0 * f64::from(data)
    {
        risks.push(format!("blocks of {} are less than a stripe: small writes cost more than planned unless they are gathered", parts.demand.block_bytes));
    }
}

/// Whether each part of the data has a node, or a drive, of its own.
fn of_width(layout: &Layout, risks: &mut Vec<String>) {
    let (protection, nodes) = (layout.protection, layout.nodes);
    let width = u64::from(protection.width());
    let drives = nodes * layout.drives_per_node;
    if drives < width {
        risks.push(format!("{width} drives are needed for {protection}, and there are {drives}"));
        return;
    }
    if layout.failure_domain == FailureDomain::Drive {
        return;
    }
    if nodes < width {
        let on_one = width.div_ceil(nodes);
        let loses = match on_one > u64::from(protection.tolerates()) {
            true => ", and its loss loses data",
            false => "",
        };
        risks.push(format!("{width} nodes are needed for {protection}, and there are {nodes}: a node holds {on_one} of the parts{loses}"));
    }
    if nodes == width && width > 1 {
        risks.push("as many nodes as parts of the data: what a lost node held is made again only once it is replaced".to_owned());
    }
}

fn of_journals(parts: Parts<'_>, layout: &Layout, risks: &mut Vec<String>) {
    let Some(journal) = parts.journal else { return };
    let name = journal.name.get_ref();
    match journal.power_loss_protection {
        Some(true) => {}
        Some(false) => {
            risks.push(format!("{name} has no power-loss protection and holds journals"))
        }
        None => risks.push(format!(
            "whether {name} has power-loss protection is not known; it holds journals"
        )),
    }
    if let Some(journals) = &layout.journals {
        let have = parts.node().journal_drives;
        if let Some(need) = journals.drives_needed.filter(|need| need.count > have) {
            let (needed, have) = (need.count, have);
            risks.push(format!(
                "{needed} journal drives a node are needed by the ratio, {have} are there (X10)"
            ));
        }
        let most = journals.on_each_drive.iter().max().copied().unwrap_or(0);
        if journals.size_bytes * crate::rounding::real(most) > journal.capacity {
            risks.push(format!("{most} journals of {} do not fit {name}", journals.size_bytes));
        }
    }
    let drives = crate::rounding::real(layout.drives_per_node);
    let count = crate::rounding::real(parts.node().journal_drives);
    if journal.write_rate.is_none() {
        risks.push(format!("whether {name} writes as fast as the drives behind it is not known: it has no write_rate"));
    }
    if let (Some(data), Some(rate)) = (parts.drive().write_rate, journal.write_rate) {
        let balance = crate::journal::Balance { journals: rate * count, data: data * drives };
        if !balance.holds() {
            risks.push(format!(
                "journals take {}, and the drives behind them {}",
                balance.journals, balance.data
            ));
        }
    }
}

/// Whether a node has room for the cache that metadata of spinning disks want: its cache, else what journals leave of
/// their drives.
fn of_cache(parts: Parts<'_>, layout: &Layout, risks: &mut Vec<String>) {
    let Some(need) = layout.metadata_cache_bytes else { return };
    let left = parts.journal.map(|journal| {
        let osds = crate::rounding::real(layout.osds / layout.nodes);
        let size = layout.journals.as_ref().map_or(Bytes::ZERO, |journals| journals.size_bytes);
        let all = journal.capacity * crate::rounding::real(parts.node().journal_drives);
        (all - size * osds).max(Bytes::ZERO)
    });
    let have = parts.node().cache.or(left).unwrap_or(Bytes::ZERO);
    if have < need * CACHE_ENOUGH {
        risks.push(format!("metadata want a cache of {need} a node, and there is room for {have}"));
    }
}

fn of_figures(parts: Parts<'_>, layout: &Layout, risks: &mut Vec<String>) {
    if parts.demand.class == Class::Iops && !layout.media.is_flash() {
        risks.push(
            "spinning disks in the class iops: Intel's guide, table 1, has flash for it".to_owned(),
        );
    }
    if let Some(bound) = parts.demand.latency_seconds {
        match layout.supply.latency_shown {
            Some(true) => {}
            Some(false) if crate::supply::seek_is_late(parts.drive(), parts.demand) => {
                risks.push(format!("spinning disks seek for longer than the {bound} asked for"))
            }
            Some(false) => {
                risks.push(format!("its rates were measured at more than the {bound} asked for"))
            }
            None => risks.push(format!("latency within {bound} is not shown by any measurement")),
        }
    }
    if parts.drive().media.is_flash()
        && layout.drive_life_years.is_none()
        && parts.demand.write_rate().base() > 0.0
    {
        risks.push(format!("endurance is not known: {} has no drive_writes_per_day", layout.drive));
    }
    if parts.node_power(DriveWork::Any).is_none() {
        risks.push("power is not known".to_owned());
    } else if parts.node().power.is_none() {
        risks.push("power of the servers is not known: that of drives alone is counted".to_owned());
    }
    let unpriced = parts.unpriced();
    if !unpriced.is_empty() {
        risks.push(format!("no price of {}", unpriced.join(", ")));
    }
    if layout.price.is_some() && layout.rack_units.is_none() {
        risks.push(format!("rack is not counted: {} has no rack_units", layout.node));
    }
    let assumed = &parts.node().assumed;
    if !assumed.is_empty() {
        risks.push(format!("assumed of {}, and in no source: {}", layout.node, assumed.join(", ")));
    }
}
