//! What the machines of several hosts did at the same time, as one.
//!
//! MERGED-1. A machine counts once, however many clients on it looked at it; and so does a daemon, whoever asked it.

use crate::usage::between::{DiskUsage, MachineUsage, NetUsage, ProcessUsage};

/// What one host saw.
#[derive(Clone, Copy, Debug)]
pub struct UsagePart<'a> {
    /// Its name.
    pub host: &'a str,
    /// What tells its machine from others: a number that is drawn when that is started.
    pub machine: &'a str,
    /// What it saw.
    pub usage: &'a MachineUsage,
}

/// A machine, by the first host on it.
struct Machine<'a> {
    part: UsagePart<'a>,
    /// Processes that any host on it looked at.
    processes: Vec<&'a ProcessUsage>,
}

impl<'a> Machine<'a> {
    /// Each once (MERGED-1).
    fn all(parts: &[UsagePart<'a>]) -> Vec<Self> {
        let mut machines: Vec<Self> = Vec::new();
        for part in parts {
            let at = machines.iter().position(|known| known.part.machine == part.machine);
            let at = at.unwrap_or_else(|| {
                machines.push(Self { part: *part, processes: Vec::new() });
                machines.len() - 1
            });
            for process in &part.usage.processes {
                let known = &mut machines[at].processes;
                if known.iter().all(|other| other.id != process.id) {
                    known.push(process);
                }
            }
        }
        machines
    }
}

impl MachineUsage {
    /// What all machines did together; none of nothing. Disks and networks of several machines stand beside each other,
    /// with the host's name. Of daemons there is the one that all have asked, and none when they asked different ones.
    #[must_use]
    pub fn merged(parts: &[UsagePart<'_>]) -> Option<Self> {
        let first = parts.first()?.usage;
        let machines = Machine::all(parts);
        let is_one = machines.len() == 1;
        let sum = |of: fn(&Self) -> f64| machines.iter().map(|one| of(one.part.usage)).sum();
        let mut all = Self {
            seconds: first.seconds,
            cpus: machines.iter().map(|one| one.part.usage.cpus).sum(),
            cpus_busy: sum(|usage| usage.cpus_busy),
            cpus_stolen: sum(|usage| usage.cpus_stolen),
            ..Self::default()
        };
        for Machine { part: UsagePart { host, usage, .. }, processes } in &machines {
            let named = |name: &str| match is_one {
                true => name.to_owned(),
                false => format!("{name} of {host}"),
            };
            all.disks.extend(usage.disks.iter().map(|disk| {
                let name = named(&disk.name);
                DiskUsage { name, ..disk.clone() }
            }));
            all.nets.extend(usage.nets.iter().map(|net| {
                let name = named(&net.name);
                NetUsage { name, ..net.clone() }
            }));
            all.processes.extend(processes.iter().map(|process| {
                let name = named(&process.name);
                ProcessUsage { name, ..(*process).clone() }
            }));
        }
        let mut servers = parts.iter().filter_map(|part| part.usage.server.as_ref());
        let server = servers.next();
        all.server =
            server.filter(|one| servers.all(|other| other.pool_id == one.pool_id)).cloned();
        for daemon in parts.iter().flat_map(|part| &part.usage.ceph) {
            if all.ceph.iter().all(|known| known.name != daemon.name) {
                all.ceph.push(daemon.clone());
            }
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::ceph::CephUsage;
    use crate::usage::server::ServerUsage;

    fn usage(process: u32, pool_id: &str) -> MachineUsage {
        let disk = DiskUsage { name: "sda".to_owned(), ..DiskUsage::default() };
        let net = NetUsage { name: "eth0".to_owned(), ..NetUsage::default() };
        let of = |id| ProcessUsage { id, name: "varve".to_owned(), ..ProcessUsage::default() };
        MachineUsage {
            seconds: 2.0,
            cpus: 4,
            cpus_busy: 3.0,
            cpus_stolen: 0.5,
            disks: vec![disk],
            nets: vec![net],
            // The daemon, and the client itself.
            processes: vec![of(7), of(process)],
            server: Some(ServerUsage { pool_id: pool_id.to_owned(), ..ServerUsage::default() }),
            ceph: vec![CephUsage { name: "ceph-osd.0".to_owned(), ..CephUsage::default() }],
        }
    }

    fn names(usage: &MachineUsage) -> Vec<&str> {
        usage.disks.iter().map(|disk| disk.name.as_str()).collect()
    }

    #[test]
    fn a_machine_of_several_clients_counts_once() {
        let (one, two) = (usage(8, "p"), usage(9, "p"));
        let part = |host, usage| UsagePart { host, machine: "m", usage };
        let merged = MachineUsage::merged(&[part("a", &one), part("b", &two)]).unwrap();
        assert_eq!((merged.cpus, merged.cpus_busy, merged.cpus_stolen), (4, 3.0, 0.5));
        assert_eq!((names(&merged), merged.nets.len(), merged.ceph.len()), (vec!["sda"], 1, 1));
        let processes: Vec<u32> = merged.processes.iter().map(|process| process.id).collect();
        assert_eq!(processes, [7, 8, 9]);
        assert_eq!(merged.server, one.server);
        assert_eq!(MachineUsage::merged(&[]), None);
    }

    #[test]
    fn machines_add_up_and_daemons_that_all_ask_do_not() {
        let (one, two) = (usage(8, "p"), usage(8, "p"));
        let part = |host, machine, usage| UsagePart { host, machine, usage };
        let merged = MachineUsage::merged(&[part("a", "m", &one), part("b", "n", &two)]).unwrap();
        assert_eq!((merged.cpus, merged.cpus_busy), (8, 6.0));
        assert_eq!(names(&merged), ["sda of a", "sda of b"]);
        assert_eq!((merged.processes.len(), merged.ceph.len()), (4, 1));
        assert_eq!(merged.processes[3].name, "varve of b");
        assert_eq!(merged.server, one.server);
        let other = usage(8, "q");
        let merged = MachineUsage::merged(&[part("a", "m", &one), part("b", "n", &other)]).unwrap();
        assert_eq!(merged.server, None, "of two daemons none is that of all operations");
    }
}
