//! The settings as the daemon uses them, with their defaults, and the checks that concern more than one of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use varve_access_admin::ListenAddress;
use varve_client::{Failure, Result};
use varve_types::ByteCount;

use crate::config::nbd::NbdSettings;
use crate::config::rados::RadosSettings;
use crate::config::redundancy::RedundancySettings;

/// The data directory unless another one is given.
pub const DATA_DEFAULT: &str = "varve-data";

/// Everything that a daemon can be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Data directory: lock, sockets, list of drives, and the embedded drive.
    pub data: PathBuf,
    /// Drives of the pool; none means a directory drive inside the data directory.
    pub drives: Vec<DriveSetting>,
    /// Shards of a new pool; 0 means one for two cores.
    pub shards: u16,
    /// How a pool keeps data over its drives.
    pub redundancy: RedundancySettings,
    /// Bound on caches and buffers of all shards.
    pub memory: ByteCount,
    /// Part of it that keeps data blocks for reads, beside their share of the rest.
    pub read_cache: ByteCount,
    /// A pool on RADOS.
    pub rados: RadosSettings,
    /// The NBD listeners.
    pub nbd: NbdSettings,
    /// The S3 gateway.
    pub s3: S3Settings,
    /// TCP listener of the admin API beside its socket.
    pub admin_listen: Option<ListenAddress>,
    /// File with the token that callers of the admin API by TCP show; none means one in the data directory.
    pub admin_token_file: Option<PathBuf>,
    /// Address of the listener for metrics and health alone.
    pub metrics_listen: Option<SocketAddr>,
    /// How long the end of the daemon may take, in seconds.
    pub shutdown_limit_s: u32,
    /// Minimum level that is logged.
    pub log_level: LogLevel,
    /// Format of log lines.
    pub log_format: LogFormat,
    /// Journal lane of each shard of a new pool.
    pub lane: ByteCount,
    /// Percent of the segments that reclaim keeps free.
    pub reclaim_free_percent: u32,
    /// Summary entries since the last checkpoint at most.
    pub checkpoint_entries: u64,
    /// By how much operations on the drives begin later, in µs; for tests, so no file sets it.
    pub media_delay_us: u64,
    /// Of which drive of a redundant pool only, and how many seconds after it was opened that begins.
    pub media_delay_drive: Option<u16>,
    /// See above.
    pub media_delay_after_s: u32,
    /// Whether shards open although acknowledged records of their journals are gone. Of one start, so only a flag.
    pub accept_lost_journal: bool,
    /// From which part of its capacity on a pool is how full.
    pub thresholds: Thresholds,
}

/// Percent of the capacity from which on a pool is filling, high, near full and full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Someone should plan for more space.
    pub(crate) filling_percent: u32,
    /// Someone should make room.
    pub(crate) high_percent: u32,
    /// Writes are about to be refused.
    pub(crate) near_full_percent: u32,
    /// Writes may be refused at any time.
    pub(crate) full_percent: u32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { filling_percent: 65, high_percent: 75, near_full_percent: 85, full_percent: 90 }
    }
}

impl Thresholds {
    /// All of them, lowest first.
    pub(crate) fn ascending(self) -> [u32; 4] {
        let Self { filling_percent, high_percent, near_full_percent, full_percent } = self;
        [filling_percent, high_percent, near_full_percent, full_percent]
    }

    fn check(self) -> Result<()> {
        let keys = ["filling_percent", "high_percent", "near_full_percent", "full_percent"];
        let named = keys.into_iter().zip(self.ascending());
        let mut pairs = named.clone().zip(named.skip(1));
        let falls = pairs.find(|((_, lower), (_, higher))| lower >= higher);
        let Some(((low, lower), (high, higher))) = falls else { return Ok(()) };
        let what = format!("space.{high} ({higher}) must be greater than space.{low} ({lower})");
        Err(Failure::misuse(what).hint(
            "space.filling_percent, space.high_percent, space.near_full_percent and space.full_percent, each above the one before",
        ))
    }
}

/// One drive of the pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriveSetting {
    /// Block device, file or directory.
    pub path: PathBuf,
    /// How much of it to use; everything when absent.
    pub size: Option<ByteCount>,
}

/// The S3 gateway.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct S3Settings {
    /// Where it listens.
    pub listen: S3Listen,
    /// Certificate chain, PEM; plain HTTP without one.
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub(crate) key: Option<PathBuf>,
    /// Whether the key that secrets are sealed with is in the pool, too.
    pub(crate) key_in_pool: bool,
    /// Buckets are websites under this name.
    pub(crate) website_domain: Option<String>,
    /// Buckets are found under these names.
    pub(crate) domains: Vec<String>,
    /// Whether presigned URLs of signature version 2 are accepted.
    pub(crate) signature_v2: bool,
    /// Connections of one address at most; 0: no bound.
    pub(crate) connections_per_address: u16,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            listen: S3Listen::Default,
            certificate: None,
            key: None,
            key_in_pool: true,
            website_domain: None,
            domains: Vec::new(),
            signature_v2: false,
            connections_per_address: 2048,
        }
    }
}

/// Where S3 is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum S3Listen {
    /// At the default address, if it is free.
    #[default]
    Default,
    /// Here, TCP only.
    At(ListenAddress),
    /// Nowhere.
    Off,
}

impl S3Listen {
    /// Address when nothing else is said.
    pub(crate) const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9000);
}

impl FromStr for S3Listen {
    type Err = String;

    /// Reads an address, or `none`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "none" => Ok(Self::Off),
            _ => text.parse::<ListenAddress>().map(Self::At).map_err(|_| {
                format!("`{text}` is neither IP:PORT, such as 127.0.0.1:9000, nor none")
            }),
        }
    }
}

/// Levels of logging.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum LogLevel {
    /// Someone must act.
    Error,
    /// Unexpected, but it went on.
    Warn,
    /// Changes of state.
    Info,
    /// For developers.
    Debug,
    /// Every step.
    Trace,
}

/// Forms of a log line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one JSON object a line.
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: PathBuf::from(DATA_DEFAULT),
            drives: Vec::new(),
            shards: 0,
            redundancy: RedundancySettings::default(),
            memory: ByteCount(512 << 20),
            read_cache: ByteCount(0),
            rados: RadosSettings::default(),
            nbd: NbdSettings::default(),
            s3: S3Settings::default(),
            admin_listen: None,
            admin_token_file: None,
            metrics_listen: None,
            shutdown_limit_s: 240,
            log_level: LogLevel::Warn,
            log_format: LogFormat::Text,
            lane: ByteCount(256 << 20),
            reclaim_free_percent: 2,
            checkpoint_entries: 1_000_000,
            media_delay_us: 0,
            media_delay_drive: None,
            media_delay_after_s: 0,
            accept_lost_journal: false,
            thresholds: Thresholds::default(),
        }
    }
}

impl S3Settings {
    fn check(&self) -> Result<()> {
        if let S3Listen::At(address @ ListenAddress::Unix(_)) = &self.listen {
            return Err(Failure::misuse(format!("S3 listener {address} is not a TCP address"))
                .hint("S3 clients connect by TCP: such as 127.0.0.1:9000"));
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err(Failure::misuse("S3 has only one of certificate and key")
                .hint("set both s3.certificate and s3.key"));
        }
        Ok(())
    }
}

impl S3Settings {
    /// Where S3 is wanted: who gives a certificate wants it.
    pub(crate) fn effective_listen(&self) -> S3Listen {
        match &self.listen {
            S3Listen::Default if self.certificate.is_some() => {
                S3Listen::At(ListenAddress::Tcp(S3Listen::DEFAULT))
            }
            listen => listen.clone(),
        }
    }
}

impl Settings {
    /// How long the end of the daemon may take.
    pub(crate) const fn shutdown_limit(&self) -> Duration {
        Duration::from_secs(self.shutdown_limit_s as u64)
    }

    /// Cells that this node serves at most, of so many.
    pub(crate) fn rados_cells_max(&self, cells: u16) -> u16 {
        if self.rados.cells_max == 0 { cells } else { self.rados.cells_max.min(cells) }
    }

    /// Shards that this node serves at most, of a pool with so many in each of its cells.
    pub(crate) fn shards_at_once(&self, shards: u16, cells: u16) -> u32 {
        u32::from(shards) * u32::from(self.rados_cells_max(cells))
    }

    /// Bytes of a shard's part of the budget that are divided among caches and buffers.
    pub fn shard_memory(&self, shards: u32) -> u64 {
        self.memory.0.saturating_sub(self.read_cache.0) / u64::from(shards.max(1))
    }

    /// Most bytes of objects' bodies under way; of the part of the budget that belongs to no cache.
    pub(crate) fn object_bodies_bytes(&self) -> usize {
        usize::try_from(self.memory.0 / 16).unwrap_or(usize::MAX)
    }

    /// Most memory for what comes in of objects' bodies before it is among those.
    pub(crate) fn object_intake_bytes(&self) -> u64 {
        self.memory.0 / 8
    }

    /// The NBD listeners: those that were set, or a socket in the data directory. NBD has no passwords, so TCP, which
    /// every user of the machine reaches, has to be asked for.
    pub(crate) fn nbd_addresses(&self) -> Vec<ListenAddress> {
        if self.nbd.listen.is_empty() {
            return vec![ListenAddress::Unix(self.data.join("nbd.sock"))];
        }
        self.nbd.listen.clone()
    }

    /// NBD connections open at a time, as far as there are descriptors.
    pub(crate) fn nbd_connections_max(&self) -> usize {
        usize::try_from(self.nbd.connections_max).unwrap_or(usize::MAX)
    }

    /// Those from one address: no one takes all by default.
    pub(crate) fn nbd_connections_per_address(&self) -> usize {
        let most = self.nbd_connections_max();
        let set = self.nbd.connections_per_address.and_then(|set| usize::try_from(set).ok());
        set.unwrap_or_else(|| (most - most / 4).max(1))
    }

    /// Checks what concerns more than one setting.
    pub fn check(&self) -> Result<()> {
        if let Some(address) = self.admin_listen.as_ref().filter(|address| !address.is_local()) {
            return Err(Failure::misuse(format!(
                "admin listener {address} is open to other machines"
            ))
            .hint("listen on 127.0.0.1 and forward from there: the admin API has no encryption"));
        }
        self.nbd.tls.check()?;
        if self.accept_lost_journal && self.rados.join {
            return Err(Failure::misuse(
                "--accept-lost-journal with rados.join would also accept what shards lose that are taken over later",
            )
            .hint("start once without rados.join, then again without --accept-lost-journal"));
        }
        self.s3.check()?;
        self.thresholds.check()?;
        let authenticated = self.nbd.tls.authenticates();
        let open = self.nbd_addresses().into_iter().find(|address| !address.is_local());
        match open {
            Some(address) if !authenticated && !self.nbd.allow_unauthenticated => {
                Err(Failure::misuse(format!("NBD listener {address} is open to other machines"))
                    .hint(
                        "require client certificates (nbd.tls.client_ca, nbd.tls.required), or set \
                         nbd.allow_unauthenticated where the network itself is trusted",
                    ))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlsSettings;

    #[test]
    fn losses_of_shards_taken_over_later_are_not_accepted() {
        let accepting = Settings { accept_lost_journal: true, ..Settings::default() };
        assert!(accepting.check().is_ok());
        let rados = RadosSettings { join: true, ..RadosSettings::default() };
        assert!(Settings { rados, ..accepting }.check().is_err());
    }

    #[test]
    fn nothing_listens_on_tcp_for_nbd_unless_asked_to() {
        let settings = Settings { data: "d".into(), ..Settings::default() };
        assert_eq!(settings.nbd_addresses(), [ListenAddress::Unix("d/nbd.sock".into())]);
    }

    #[test]
    fn a_listener_for_other_machines_needs_authentication_or_consent() {
        let mut settings = Settings::default();
        assert!(settings.check().is_ok());
        settings.nbd.listen = vec!["0.0.0.0:10809".parse().unwrap()];
        assert!(settings.check().unwrap_err().to_string().contains("0.0.0.0:10809 is open"));
        settings.nbd.allow_unauthenticated = true;
        assert!(settings.check().is_ok());
        settings.nbd.allow_unauthenticated = false;
        settings.nbd.tls = TlsSettings {
            certificate: Some("c".into()),
            key: Some("k".into()),
            client_ca: Some("ca".into()),
            required: true,
        };
        assert!(settings.check().is_ok());
    }

    #[test]
    fn the_admin_api_stays_on_this_machine() {
        let at = |address: &str| Settings {
            admin_listen: Some(address.parse().unwrap()),
            ..Settings::default()
        };
        assert!(at("127.0.0.1:1").check().is_ok());
        let refused = at("0.0.0.0:1").check().unwrap_err().to_string();
        assert!(refused.contains("open to other machines"), "{refused}");
    }

    #[test]
    fn thresholds_rise() {
        let mut settings = Settings::default();
        settings.thresholds.high_percent = 85;
        let refused = settings.check().unwrap_err().to_string();
        let pair = "space.near_full_percent (85) must be greater than space.high_percent (85)";
        assert!(refused.contains(pair), "{refused}");
        settings.thresholds.high_percent = 84;
        assert!(settings.check().is_ok());
    }

    #[test]
    fn s3_is_on_at_an_address_or_off() {
        assert_eq!(Settings::default().s3.listen, S3Listen::Default);
        assert_eq!("none".parse(), Ok(S3Listen::Off));
        let refused = ":9002".parse::<S3Listen>().unwrap_err();
        assert!(refused.contains("neither IP:PORT") && !refused.contains("unix"), "{refused}");
        let at = |text: &str| {
            let s3 = S3Settings { listen: text.parse().unwrap(), ..S3Settings::default() };
            Settings { s3, ..Settings::default() }
        };
        assert!(at("0.0.0.0:9000").check().is_ok(), "its requests are signed");
        let refused = at("unix:s3.sock").check().unwrap_err().to_string();
        assert!(refused.contains("S3 listener unix:s3.sock is not a TCP address"), "{refused}");
    }

    #[test]
    fn half_a_tls_configuration_is_refused() {
        let mut settings = Settings::default();
        settings.nbd.tls.certificate = Some("c".into());
        assert!(settings.check().is_err());
        settings.nbd.tls = TlsSettings { required: true, ..TlsSettings::default() };
        assert!(settings.check().is_err());
    }
}
