//! Every setting with its form, range, default and reason. The reader and the documentation go by this table
//! (CONFIG-1).

use std::fmt::Write;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::ValueEnum;
use varve_access_admin::ListenAddress;
use varve_media_redundancy::Protection;
use varve_types::{ByteCount, parse_size};

use crate::config::settings::{DriveSetting, LogFormat, LogLevel, S3Listen, Settings};

/// One setting.
pub(crate) struct Setting {
    /// Key in the file; a dot stands for a table.
    pub(crate) key: &'static str,
    /// Flag of `varve serve` that overrides it.
    pub(crate) flag: Option<&'static str>,
    /// What values look like.
    pub(crate) form: ValueForm,
    /// Default, as people read it.
    pub(crate) default: &'static str,
    /// What it does and why it has this default.
    pub(crate) reason: &'static str,
    apply: fn(&mut Settings, Value),
}

/// What a setting's values look like and which are allowed.
#[derive(Clone, Copy)]
pub(crate) enum ValueForm {
    /// A size with a binary unit, in text.
    Size { min: u64, max: u64 },
    /// A whole number.
    Count { min: u64, max: u64, unit: &'static str },
    /// A path.
    Path,
    /// A name of a host.
    Host,
    /// A list of names of hosts.
    Hosts,
    /// One listener.
    Address,
    /// One TCP listener.
    TcpAddress,
    /// One listener, or none.
    AddressOrNone,
    /// A list of listeners.
    Addresses,
    /// Who may use a file, as octal digits in text.
    Mode,
    /// A name or number of a group.
    Group,
    /// One of a few words.
    Choice(&'static [&'static str]),
    /// How data are kept over drives.
    Protection,
    /// True or false.
    Switch,
}

/// A value that fits its setting's form.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    Addresses(Vec<ListenAddress>),
    Hosts(Vec<String>),
    Switch(bool),
}

impl Value {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("{other:?} passed the check of a numeric form"),
        }
    }

    fn count32(&self) -> u32 {
        u32::try_from(self.number()).expect("the setting's range fits 32 bits")
    }

    fn count16(&self) -> u16 {
        u16::try_from(self.number()).expect("the setting's range fits 16 bits")
    }

    fn size(&self) -> ByteCount {
        ByteCount(self.number())
    }

    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("{other:?} passed the check of a text"),
        }
    }

    fn hosts(self) -> Vec<String> {
        match self {
            Self::Hosts(hosts) => hosts,
            other => panic!("{other:?} passed the check of names of hosts"),
        }
    }

    fn path(self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            other => panic!("{other:?} passed the check of a path"),
        }
    }

    fn choice<T: ValueEnum>(&self) -> T {
        match self {
            Self::Text(text) => T::from_str(text, false).expect("the form lists the choices"),
            other => panic!("{other:?} passed the check of a choice"),
        }
    }

    fn addresses(self) -> Vec<ListenAddress> {
        match self {
            Self::Addresses(addresses) => addresses,
            other => panic!("{other:?} passed the check of an address"),
        }
    }

    fn tcp_address(self) -> Option<SocketAddr> {
        match self.addresses().pop() {
            Some(ListenAddress::Tcp(address)) => Some(address),
            other => panic!("{other:?} passed the check of a TCP address"),
        }
    }

    fn protection(self) -> Protection {
        match self {
            Self::Text(text) => text.parse().expect("the form has parsed it"),
            other => panic!("{other:?} passed the check of a protection"),
        }
    }

    fn switch(&self) -> bool {
        match self {
            Self::Switch(on) => *on,
            other => panic!("{other:?} passed the check of a switch"),
        }
    }
}

/// The table (CONFIG-1), in the order of the documentation.
pub(crate) const SETTINGS: &[Setting] = &[
    Setting {
        key: "data",
        flag: Some("--data"),
        form: ValueForm::Path,
        default: "./varve-data",
        reason: "Holds the lock, the sockets, the list of drives and the embedded drive. Socket paths are limited to \
                 107 bytes by the system, so keep it short or relative.",
        apply: |settings, value| settings.data = value.path(),
    },
    Setting {
        key: "shards",
        flag: Some("--shards"),
        form: ValueForm::Count { min: 0, max: 256, unit: "shards" },
        default: "0: one for two cores, each with 128 MiB of memory.budget at least",
        reason: "Slices of a new pool, each with a thread of its own. Fixed when the pool is created. Half the cores suit a \
                 server whose clients run on the same machine: a request that goes from one thread to another and back waits \
                 some 40 µs longer. Give all cores to a server that has the machine to itself.",
        apply: |settings, value| settings.shards = value.count16(),
    },
    Setting {
        key: "drive.path",
        flag: Some("--drive"),
        form: ValueForm::Path,
        default: "DATA/drive",
        reason: "A block device, a file or a directory; a directory is made when absent and holds one file for each \
                 purpose. Repeat the `[[drive]]` table for several. The pool remembers its drives: later starts need no list, \
                 and a different one is refused.",
        apply: |settings, value| last_drive(settings).path = value.path(),
    },
    Setting {
        key: "drive.size",
        flag: Some("--drive PATH=SIZE"),
        form: ValueForm::Size { min: *DRIVE_BYTES.start(), max: *DRIVE_BYTES.end() },
        default: "the block device; half of what the file system has free, 64 GiB at most",
        reason: "Space for segments. A journal lane of `journal.lane_size` a shard comes on top of it; where drives protect each other, copies of journals are in it. Files are sparse until \
                 written, except the lanes.",
        apply: |settings, value| last_drive(settings).size = Some(value.size()),
    },
    Setting {
        key: "pool.protect",
        flag: Some("--protect"),
        form: ValueForm::Protection,
        default: "by the number of drives: 1 \"none\", 2 or 3 \"mirror:2\", 4 \"ec:2+1\", 5 \"ec:3+1\", 6 and more \"ec:4+2\"",
        reason: "How a new pool on several drives keeps data, so that lost drives lose nothing: `mirror:N` has N copies, of which N - 1 may be lost; `ec:K+M` has K parts and M of \
                 parity, of which any M may be lost, on K + M drives at least. With `none` each drive has a part of the pool, and a lost one loses the pool. \
                 `varve pool set --protect` changes it later.",
        apply: |settings, value| settings.redundancy.protect = Some(value.protection()),
    },
    Setting {
        key: "pool.drive_patience_s",
        flag: None,
        form: ValueForm::Count { min: 1, max: 60, unit: "seconds" },
        default: "10",
        reason: "How long a drive of a pool with redundancy may not answer before it counts as failed and the pool goes on without it. A drive that failed is not used \
                 again as it is, so this should be longer than anything that a sound drive does: Linux retries for some seconds itself.",
        apply: |settings, value| settings.redundancy.drive_patience_s = value.count32(),
    },
    Setting {
        key: "pool.journal_patience_ms",
        flag: None,
        form: ValueForm::Count { min: 50, max: 10_000, unit: "ms" },
        default: "300",
        reason: "How long one copy of a journal may not answer while the others did before another drive gets it. Writes of clients wait as long.",
        apply: |settings, value| settings.redundancy.journal_patience_ms = value.count32(),
    },
    Setting {
        key: "pool.missing_wait_s",
        flag: None,
        form: ValueForm::Count { min: 0, max: 600, unit: "seconds" },
        default: "30",
        reason: "How long a start waits for drives of a pool with redundancy that are not there: some appear late. After that the pool goes on without them, if it may, and \
                 they have failed.",
        apply: |settings, value| settings.redundancy.missing_wait_s = value.count32(),
    },
    Setting {
        key: "repair.percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 100, unit: "percent" },
        default: "30",
        reason: "How much of what a drive does goes to rebuilding and moving data while clients use it; drives on one device share it. A scrub gets half of that, zones that survive no other loss get 90 percent. \
                 Without clients it is all, and always at least 4 MiB a second.",
        apply: |settings, value| settings.redundancy.repair_percent = value.count32(),
    },
    Setting {
        key: "repair.rebalance",
        flag: None,
        form: ValueForm::Switch,
        default: "true",
        reason: "Whether data of a pool with redundancy are moved from fuller to emptier drives, as after one was added, until they differ by less than 5 percent of their sizes: when \
                 nothing else is to be moved, at the rate of a scrub. Without it, what is under way goes back.",
        apply: |settings, value| settings.redundancy.rebalances = value.switch(),
    },
    Setting {
        key: "repair.hedge_percent",
        flag: None,
        form: ValueForm::Count { min: 0, max: 20, unit: "percent" },
        default: "5",
        reason: "How many of the reads of the last 10 s may be made a second time, from other drives of a pool with redundancy, because a drive is late: later than 5 ms, and than \
                 four times what nearly all reads of the other drives take. The first right answer counts. 0 waits for the drive. Reads of a drive that is known to be slow go to the \
                 others in any case.",
        apply: |settings, value| settings.redundancy.hedge_percent = value.count32(),
    },
    Setting {
        key: "repair.scrub_days",
        flag: None,
        form: ValueForm::Count { min: 1, max: 365, unit: "days" },
        default: "14",
        reason: "How many days after the last scrub of all drives of a pool with redundancy the next one begins by itself.",
        apply: |settings, value| settings.redundancy.scrub_days = value.count32(),
    },
    Setting {
        key: "smart.interval_s",
        flag: None,
        form: ValueForm::Count { min: 0, max: 86_400, unit: "seconds" },
        default: "600",
        reason: "How often drives are asked by smartctl how they are, which takes a drive some ms. Of drives that are directories or files the device below them is asked. 0 asks never.",
        apply: |settings, value| settings.redundancy.condition_s = value.count32(),
    },
    Setting {
        key: "smart.leave_on_warning",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Whether a drive of a pool with redundancy leaves, so that all it has is moved elsewhere, when it says that its end is near: spare flash below the threshold, unreliable, \
                 read-only, an unprotected cache, or failing. Without it, and where the other drives are too few, that is only told: a drive that fails later costs no more.",
        apply: |settings, value| settings.redundancy.leaves_on_warning = value.switch(),
    },
    Setting {
        key: "memory.budget",
        flag: None,
        form: ValueForm::Size { min: 128 << 20, max: 1 << 40 },
        default: "512MiB",
        reason: "Limit on the memory of the daemon; docs/operating/configuration.md says how it is divided. A shard needs at least 64 MiB, \
                 and by default there is one for two cores or one for each 128 MiB, whichever is fewer. Below 256 MiB bursts of large \
                 requests take more than the budget: up to 240 MiB. More caches more of the map of a large pool.",
        apply: |settings, value| settings.memory = value.size(),
    },
    Setting {
        key: "memory.read_cache",
        flag: None,
        form: ValueForm::Size { min: 0, max: 1 << 40 },
        default: "0B",
        reason: "Part of `memory.budget` that keeps data blocks that were read, beside their share of the rest. For data that is read \
                 again and again by clients without a cache of their own, such as S3 clients; clients' own page caches are nearer to them. \
                 Of each shard's part, a large read or a write takes one part in 512 at most, and writes are kept only where \
                 that is more than 64 KiB: with 512 MiB, whole MiB of objects are kept as they are put and read.",
        apply: |settings, value| settings.read_cache = value.size(),
    },
    Setting {
        key: "rados.read_cache",
        flag: None,
        form: ValueForm::Size { min: 0, max: 1 << 44 },
        default: "0B",
        reason: "Of a pool on RADOS: bytes of a file on this machine's flash that keep copies of what was read of segments, in reads of 256 KiB at \
                 most, so that it is read from the cluster once. It holds copies only, begins empty at each start, and may be lost at any time. It \
                 takes 3 MiB of memory for each GiB of it in use, beside `memory.budget`.",
        apply: |settings, value| settings.rados.read_cache = value.size(),
    },
    Setting {
        key: "rados.read_cache_path",
        flag: None,
        form: ValueForm::Path,
        default: "DATA/read-cache",
        reason: "The file of `rados.read_cache`, which is made, or was made for that. Each daemon needs one of its own.",
        apply: |settings, value| settings.rados.read_cache_path = Some(value.path()),
    },
    Setting {
        key: "rados.join",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Of a pool on RADOS with its journal there: makes this daemon one of its nodes. One of them serves the pool, the others stand by and carry clients to it; \
                 when it ends, or nothing is heard of it for 3 s, the one that waited longest takes over. All daemons of a pool \
                 should have it: one without takes the pool as it starts, and has it taken back.",
        apply: |settings, value| settings.rados.join = value.switch(),
    },
    Setting {
        key: "rados.listen",
        flag: None,
        form: ValueForm::TcpAddress,
        default: "a port of the system's choice",
        reason: "Where a daemon with `rados.join` listens for the others, which bring it their clients: the address at which their machines reach this one. \
                 Without it that is the address by which this machine reaches the cluster. Set it where a firewall wants to know the port. Nodes know each \
                 other by keys that they find in the cluster; others are refused.",
        apply: |settings, value| settings.rados.listen = value.tcp_address(),
    },
    Setting {
        key: "rados.cells_max",
        flag: None,
        form: ValueForm::Count { min: 0, max: 256, unit: "cells" },
        default: "0: all",
        reason: "Cells that this node serves at most, of a pool on RADOS that has several. memory.budget is divided by it: with fewer, each has more; but cells for which no node has \
                 room are not served. Half of them lets one of three nodes end.",
        apply: |settings, value| settings.rados.cells_max = value.count16(),
    },
    Setting {
        key: "rados.balance",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Moves cells of a pool on RADOS from nodes that have at least two more to those that have fewer, one at a time, once these have been there for 10 s. Connections to \
                 volumes of a cell end when it moves, and clients must connect again. Without it cells change their node only when one ends or dies.",
        apply: |settings, value| settings.rados.balance = value.switch(),
    },
    Setting {
        key: "nbd.listen",
        flag: Some("--nbd"),
        form: ValueForm::Addresses,
        default: "unix:DATA/nbd.sock",
        reason: "Where NBD clients connect. NBD has no passwords: a TCP address, also one of loopback, serves every user of the \
                 machines that reach it. One that other machines reach needs client certificates or `nbd.allow_unauthenticated`.",
        apply: |settings, value| settings.nbd.listen = value.addresses(),
    },
    Setting {
        key: "nbd.connections_max",
        flag: None,
        form: ValueForm::Count { min: 1, max: 65_536, unit: "connections" },
        default: "1024",
        reason: "NBD connections open at a time, over all listeners; further clients get the reason and are closed. Many clients open several for a volume. \
                 Idle ones hold a few KiB each, busy ones up to 16 KiB beside their share of `memory.budget` and a buffer of 256 KiB. Each takes a \
                 descriptor: the daemon raises its limit of open files as far as it may, and takes fewer connections where that does not suffice.",
        apply: |settings, value| settings.nbd.connections_max = value.count32(),
    },
    Setting {
        key: "nbd.connections_per_address",
        flag: None,
        form: ValueForm::Count { min: 1, max: 65_536, unit: "connections" },
        default: "three quarters of nbd.connections_max",
        reason: "Of these from one address of a network, so that one machine does not keep all others out.",
        apply: |settings, value| settings.nbd.connections_per_address = Some(value.count32()),
    },
    Setting {
        key: "nbd.socket_mode",
        flag: None,
        form: ValueForm::Mode,
        default: "\"0600\"; \"0660\" with nbd.socket_group",
        reason: "Mode of NBD's unix sockets. Whoever may write to a socket may use every volume.",
        apply: |settings, value| settings.nbd.socket_mode = Some(value.count32()),
    },
    Setting {
        key: "nbd.socket_group",
        flag: None,
        form: ValueForm::Group,
        default: "the group of the daemon",
        reason: "Group of NBD's unix sockets, by its name in /etc/group or its number, such as that of the user that runs virtual machines. The daemon's user \
                 must belong to it, or be root.",
        apply: |settings, value| settings.nbd.socket_group = Some(value.text()),
    },
    Setting {
        key: "nbd.allow_unauthenticated",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Serves other machines without knowing who they are. Only where the network itself is trusted.",
        apply: |settings, value| settings.nbd.allow_unauthenticated = value.switch(),
    },
    Setting {
        key: "nbd.tls.certificate",
        flag: None,
        form: ValueForm::Path,
        default: "none: no TLS",
        reason: "Certificate chain in PEM that NBD clients see after STARTTLS.",
        apply: |settings, value| settings.nbd.tls.certificate = Some(value.path()),
    },
    Setting {
        key: "nbd.tls.key",
        flag: None,
        form: ValueForm::Path,
        default: "none",
        reason: "The certificate's private key in PEM.",
        apply: |settings, value| settings.nbd.tls.key = Some(value.path()),
    },
    Setting {
        key: "nbd.tls.client_ca",
        flag: None,
        form: ValueForm::Path,
        default: "none: clients show no certificate",
        reason: "Authority in PEM that clients' certificates must come from.",
        apply: |settings, value| settings.nbd.tls.client_ca = Some(value.path()),
    },
    Setting {
        key: "nbd.tls.required",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Turns away clients that do not start TLS.",
        apply: |settings, value| settings.nbd.tls.required = value.switch(),
    },
    Setting {
        key: "s3.listen",
        flag: Some("--s3"),
        form: ValueForm::AddressOrNone,
        default: "\"127.0.0.1:9000\", or none where another process has that address",
        reason: "Serves buckets and objects by S3 on this address, or not at all. The first start creates a user who may do everything and \
                 writes its key to DATA/owner.key. Where the address is taken volumes are served without S3.",
        apply: |settings, value| {
            settings.s3.listen = value.addresses().pop().map_or(S3Listen::Off, S3Listen::At);
        },
    },
    Setting {
        key: "s3.certificate",
        flag: None,
        form: ValueForm::Path,
        default: "none: plain HTTP",
        reason: "Certificate chain in PEM, for HTTPS.",
        apply: |settings, value| settings.s3.certificate = Some(value.path()),
    },
    Setting {
        key: "s3.key",
        flag: None,
        form: ValueForm::Path,
        default: "none",
        reason: "The certificate's private key in PEM. It is not the file s3.key of the data directory, which holds the key \
                 that secrets are sealed with: see `s3.key_in_pool`.",
        apply: |settings, value| settings.s3.key = Some(value.path()),
    },
    Setting {
        key: "s3.key_in_pool",
        flag: None,
        form: ValueForm::Switch,
        default: "true",
        reason: "Keeps the key that secrets of access keys and encrypted objects are sealed with in the pool, of which DATA/s3.key is a copy then, so that \
                 drives alone are enough to serve everything. Whoever has the drives can open what is sealed. With false the file is the only place: keep \
                 a copy of it.",
        apply: |settings, value| settings.s3.key_in_pool = value.switch(),
    },
    Setting {
        key: "s3.website_domain",
        flag: None,
        form: ValueForm::Host,
        default: "none: buckets are not served as websites",
        reason: "Serves each bucket that is configured as a website to whoever asks for the host BUCKET.DOMAIN, at the S3 address. What \
                 visitors may read, policies and access control lists say.",
        apply: |settings, value| settings.s3.website_domain = Some(value.text()),
    },
    Setting {
        key: "s3.domain",
        flag: None,
        form: ValueForm::Hosts,
        default: "none: buckets are found by paths only",
        reason: "Serves each bucket at the host BUCKET.DOMAIN too, as most SDKs ask for it unless configured to use paths. The name server must \
                 lead all names under the domain here, and a certificate must cover them (`*.DOMAIN`).",
        apply: |settings, value| settings.s3.domains = value.hosts(),
    },
    Setting {
        key: "s3.signature_v2",
        flag: None,
        form: ValueForm::Switch,
        default: "false",
        reason: "Accepts presigned URLs of signature version 2, which boto3 creates unless configured to use version 4. Such a signature covers less of a \
                 request and rests on SHA-1; what it does not cover is refused.",
        apply: |settings, value| settings.s3.signature_v2 = value.switch(),
    },
    Setting {
        key: "s3.connections_per_address",
        flag: None,
        form: ValueForm::Count { min: 0, max: 4096, unit: "connections" },
        default: "2048; 0 sets no bound of its own",
        reason: "S3 connections of one client address at most, of 4096 in all, so that one client leaves room for others. Idle connections are closed when \
                 others need their places; a further connection while all are busy is answered 503 `SlowDown`. Raise it where a proxy stands before S3.",
        apply: |settings, value| settings.s3.connections_per_address = value.count16(),
    },
    Setting {
        key: "admin.listen",
        flag: Some("--admin"),
        form: ValueForm::Address,
        default: "none",
        reason: "Serves the admin API on a loopback TCP address too, to callers that show the token of `admin.token_file`. It is always on \
                 unix:DATA/admin.sock, which only the daemon's user can open.",
        apply: |settings, value| settings.admin_listen = value.addresses().pop(),
    },
    Setting {
        key: "admin.token_file",
        flag: None,
        form: ValueForm::Path,
        default: "DATA/admin.token",
        reason: "File with the token that callers of the admin API at `admin.listen` show: every user of the machine reaches that address. Created, \
                 with mode 0600, if it is absent. Nodes of one pool need the same token.",
        apply: |settings, value| settings.admin_token_file = Some(value.path()),
    },
    Setting {
        key: "metrics.listen",
        flag: None,
        form: ValueForm::TcpAddress,
        default: "none",
        reason: "Serves /metrics, /health/live and /health/ready, and nothing else, by HTTP without a token. Metrics contain amounts and the paths of \
                 drives: choose an address that only your monitoring can reach.",
        apply: |settings, value| settings.metrics_listen = value.tcp_address(),
    },
    Setting {
        key: "shutdown.limit_s",
        flag: None,
        form: ValueForm::Count { min: 5, max: 3600, unit: "seconds" },
        default: "240",
        reason: "How long the daemon may take from the first signal until all is written out; it ends then as by a second signal, as a drive may hang. Nothing acknowledged is \
                 lost: the next start replays the journal. The unit of systemd kills it after 300 s.",
        apply: |settings, value| settings.shutdown_limit_s = value.count32(),
    },
    Setting {
        key: "log.level",
        flag: Some("--log"),
        form: ValueForm::Choice(&["error", "warn", "info", "debug", "trace"]),
        default: "warn",
        reason: "Minimum level that is logged to standard error. A healthy daemon is silent at `warn`.",
        apply: |settings, value| settings.log_level = value.choice::<LogLevel>(),
    },
    Setting {
        key: "log.format",
        flag: Some("--log-format"),
        form: ValueForm::Choice(&["text", "json"]),
        default: "text",
        reason: "Lines for people, or one JSON object a line for collectors.",
        apply: |settings, value| settings.log_format = value.choice::<LogFormat>(),
    },
    Setting {
        key: "journal.lane_size",
        flag: None,
        form: ValueForm::Size { min: 16 << 20, max: 16 << 30 },
        default: "256MiB",
        reason: "Journal lane of each shard of a new pool, written ahead when the pool is created. It holds what was \
                 acknowledged but is not in segments yet: a longer lane absorbs longer bursts and makes replay longer.",
        apply: |settings, value| settings.lane = value.size(),
    },
    Setting {
        key: "reclaim.free_percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 50, unit: "percent" },
        default: "2",
        reason: "Share of the segments that reclaim keeps free, beside its reserves. A higher share absorbs longer \
                 bursts before writes wait for reclaim; it lessens capacity and, near full, raises write amplification.",
        apply: |settings, value| settings.reclaim_free_percent = value.count32(),
    },
    Setting {
        key: "checkpoint.entries_max",
        flag: None,
        form: ValueForm::Count { min: 10_000, max: 100_000_000, unit: "entries" },
        default: "1000000",
        reason: "Summary entries written to segments before the next checkpoint begins. Bounds what a restart replays; \
                 a million take well below a second.",
        apply: |settings, value| settings.checkpoint_entries = value.number(),
    },
    Setting {
        key: "space.filling_percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 100, unit: "percent" },
        default: "65",
        reason: "Share of its capacity from which on a pool counts as filling: time to plan for more space. `varve status`, `varve df` and \
                 `/metrics` say so, and so does the log at `info`.",
        apply: |settings, value| settings.thresholds.filling_percent = value.count32(),
    },
    Setting {
        key: "space.high_percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 100, unit: "percent" },
        default: "75",
        reason: "From here on reclaim has to move more for each write, and writes get slower. Logged as a warning.",
        apply: |settings, value| settings.thresholds.high_percent = value.count32(),
    },
    Setting {
        key: "space.near_full_percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 100, unit: "percent" },
        default: "85",
        reason: "From here on snapshots, or a burst of writes, may fill the pool before anybody looks again. Logged as a warning.",
        apply: |settings, value| settings.thresholds.near_full_percent = value.count32(),
    },
    Setting {
        key: "space.full_percent",
        flag: None,
        form: ValueForm::Count { min: 1, max: 100, unit: "percent" },
        default: "90",
        reason: "From here on someone must act: when nothing is left, new data get ENOSPC. Reads, trims and deletes always work. Logged as \
                 an error.",
        apply: |settings, value| settings.thresholds.full_percent = value.count32(),
    },
];

impl Setting {
    /// Sets it.
    pub(crate) fn apply(&self, settings: &mut Settings, value: Value) {
        (self.apply)(settings, value);
    }
}

/// Whether a name of a host may be so written, in small letters and without a port.
fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    text.split('.').all(|label| !label.is_empty() && label.bytes().all(fits))
}

/// Sizes that a drive may have, in bytes.
pub const DRIVE_BYTES: RangeInclusive<u64> = 128 << 20..=1 << 50;

fn last_drive(settings: &mut Settings) -> &mut DriveSetting {
    settings.drives.last_mut().expect("the reader adds a drive before its settings")
}

/// What a file may say, before it is known to fit.
pub(crate) enum Raw<'a> {
    Text(&'a str),
    Integer(i64),
    Switch(bool),
    List(Vec<&'a str>),
    /// Another type, by its TOML name.
    Other(&'static str),
}

impl ValueForm {
    /// The value, or what is wrong with it.
    pub(crate) fn read(self, raw: &Raw<'_>) -> Result<Value, String> {
        match (self, raw) {
            (Self::Size { min, max }, Raw::Text(text)) => {
                let size = parse_size(text)?;
                let allowed = (min..=max).contains(&size.0);
                if allowed {
                    Ok(Value::Number(size.0))
                } else {
                    Err(format!("{} is out of range", size.exact()))
                }
            }
            (Self::Count { min, max, .. }, Raw::Integer(number)) => match u64::try_from(*number) {
                Ok(number) if (min..=max).contains(&number) => Ok(Value::Number(number)),
                _ => Err(format!("{number} is out of range")),
            },
            (Self::Path, Raw::Text("")) => Err("the path is empty".to_owned()),
            (Self::Path, Raw::Text(text)) => Ok(Value::Text((*text).to_owned())),
            (Self::Host, Raw::Text(text)) if is_host(text) => Ok(Value::Text((*text).to_owned())),
            (Self::Host, Raw::Text(text)) => Err(format!("invalid host name `{text}`")),
            (Self::Hosts, Raw::List(texts)) => match texts.iter().find(|text| !is_host(text)) {
                Some(text) => Err(format!("`{text}` is not a host name")),
                None => Ok(Value::Hosts(texts.iter().map(|text| (*text).to_owned()).collect())),
            },
            (Self::Protection, Raw::Text(text)) => {
                text.parse::<Protection>().map(|_| Value::Text((*text).to_owned()))
            }
            (Self::Mode, Raw::Text(text)) => match u32::from_str_radix(text, 8) {
                Ok(mode) if mode <= 0o777 => Ok(Value::Number(u64::from(mode))),
                _ => Err(format!("invalid mode `{text}`")),
            },
            (Self::Group, Raw::Text(text)) if !text.is_empty() => {
                Ok(Value::Text((*text).to_owned()))
            }
            (Self::AddressOrNone, Raw::Text("none")) => Ok(Value::Addresses(Vec::new())),
            (Self::Address | Self::AddressOrNone, Raw::Text(text)) => {
                Ok(Value::Addresses(vec![text.parse()?]))
            }
            (Self::TcpAddress, Raw::Text(text)) => match text.parse()? {
                address @ ListenAddress::Tcp(_) => Ok(Value::Addresses(vec![address])),
                ListenAddress::Unix(_) => Err(format!("`{text}` is not a TCP address")),
            },
            (Self::Addresses, Raw::List(texts)) => {
                let addresses = texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
                Ok(Value::Addresses(addresses))
            }
            (Self::Choice(words), Raw::Text(text)) if words.contains(text) => {
                Ok(Value::Text((*text).to_owned()))
            }
            (Self::Choice(_), Raw::Text(text)) => {
                Err(format!("`{text}` is not one of the choices"))
            }
            (Self::Switch, Raw::Switch(on)) => Ok(Value::Switch(*on)),
            (form, raw) => Err(format!("must be {}, not {}", form.expected(), raw.type_name())),
        }
    }

    /// What a file has to say.
    fn expected(self) -> &'static str {
        match self {
            Self::Size { .. } => "a size in quotes, such as \"20GiB\"",
            Self::Count { .. } => "a whole number",
            Self::Path | Self::Host | Self::Group | Self::Protection | Self::Choice(_) => {
                "text in quotes"
            }
            Self::Hosts => "host names in quotes",
            Self::Mode => "an octal mode in quotes, such as \"0660\"",
            Self::Address | Self::AddressOrNone | Self::TcpAddress => "an address in quotes",
            Self::Addresses => "a list of addresses, such as [\"127.0.0.1:10809\"]",
            Self::Switch => "true or false",
        }
    }

    /// What is allowed, for messages and documentation.
    pub(crate) fn allowed(self) -> String {
        match self {
            Self::Size { min, max } => {
                format!("a size in text from \"{}\" to \"{}\"", ByteCount(min), ByteCount(max))
            }
            Self::Count { min, max, unit } => format!("{min} to {max} {unit}"),
            Self::Path => "a path in text".to_owned(),
            Self::Host => "a host name in text".to_owned(),
            Self::Hosts => "a list of host names in text".to_owned(),
            Self::Address => "\"unix:PATH\" or \"IP:PORT\"".to_owned(),
            Self::TcpAddress => "\"IP:PORT\"".to_owned(),
            Self::AddressOrNone => "\"IP:PORT\" or \"none\"".to_owned(),
            Self::Addresses => "a list of \"unix:PATH\" and \"IP:PORT\"".to_owned(),
            Self::Mode => "octal digits in text, such as \"0660\"".to_owned(),
            Self::Group => "the name or number of a group in text".to_owned(),
            Self::Protection => {
                "\"none\", \"mirror:N\" with 2 to 5 copies, or \"ec:K+M\" with K 2 to 12 and M 1 to 4"
                    .to_owned()
            }
            Self::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
                quoted.join(", ")
            }
            Self::Switch => "true or false".to_owned(),
        }
    }
}

impl Raw<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) => "a whole number",
            Self::Switch(_) => "true or false",
            Self::List(_) => "a list of text",
            Self::Other(name) => name,
        }
    }
}

/// The settings as Markdown, for `docs/operating/configuration.md`.
pub fn document() -> String {
    let mut text = String::from(include_str!("document_head.md"));
    for setting in SETTINGS {
        let _ = writeln!(text, "\n### `{}`\n\n{}\n", setting.key, setting.reason);
        let _ = writeln!(text, "- allowed: {}", setting.form.allowed());
        let _ = writeln!(text, "- default: {}", setting.default);
        if let Some(flag) = setting.flag {
            let _ = writeln!(text, "- flag of `varve serve`: `{flag}`");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value of the setting's form that is not its default.
    fn sample(setting: &Setting) -> Value {
        match setting.form {
            ValueForm::Size { max, .. } => Value::Number(max),
            ValueForm::Count { max, .. } => Value::Number(max),
            ValueForm::Path => Value::Text("p".to_owned()),
            ValueForm::Host => Value::Text("h.example".to_owned()),
            ValueForm::Hosts => Value::Hosts(vec!["h.example".to_owned()]),
            ValueForm::Address | ValueForm::AddressOrNone | ValueForm::Addresses => {
                Value::Addresses(vec!["unix:s".parse().unwrap()])
            }
            ValueForm::TcpAddress => Value::Addresses(vec!["127.0.0.1:1".parse().unwrap()]),
            ValueForm::Mode => Value::Number(0o660),
            ValueForm::Group => Value::Text("kvm".to_owned()),
            ValueForm::Protection => Value::Text("ec:4+2".to_owned()),
            ValueForm::Choice(words) => Value::Text(words[words.len() - 1].to_owned()),
            ValueForm::Switch => Value::Switch(setting.default == "false"),
        }
    }

    #[test]
    fn every_setting_takes_values_of_its_form() {
        for setting in SETTINGS {
            let mut settings = Settings::default();
            settings.drives.push(DriveSetting::default());
            let before = format!("{settings:?}");
            setting.apply(&mut settings, sample(setting));
            assert_ne!(format!("{settings:?}"), before, "{} sets nothing", setting.key);
        }
    }

    #[test]
    fn keys_are_unique() {
        let mut keys: Vec<_> = SETTINGS.iter().map(|setting| setting.key).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), SETTINGS.len());
    }

    #[test]
    fn the_documentation_is_this_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/configuration.md");
        if std::env::var_os("VARVE_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert!(published == document(), "{path} is stale; VARVE_UPDATE_SNAPSHOTS=1 writes it");
    }
}
