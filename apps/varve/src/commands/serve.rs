//! `varve serve`: runs the daemon in the foreground until a signal ends it.

use std::path::PathBuf;

use clap::Args;
use varve_access_admin::ListenAddress;
use varve_client::Result;
use varve_daemon::config::{
    self, CONFIG_FILE, DriveSetting, LogFormat, LogLevel, S3Listen, Settings,
};
use varve_daemon::logging;
use varve_media_redundancy::{HistoryId, Protection};
use varve_types::{ByteCount, parse_size};

use crate::cli::Global;

/// Serve a pool's volumes over NBD and its buckets over S3, in the foreground
///
/// Without options: creates ./varve-data with a drive in it at the first start, and serves NBD on the unix socket
/// ./varve-data/nbd.sock and S3 on 127.0.0.1:9000. NBD over TCP has to be asked for (--nbd 127.0.0.1:10809), as it has
/// no passwords. SIGTERM or SIGINT shuts the daemon down cleanly; a second one ends it at once, which loses nothing
/// that was acknowledged.
#[derive(Args, Debug)]
pub(crate) struct Serve {
    /// Configuration file [default: varve.toml in the data directory, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Address for NBD clients, repeatable [default: unix:DATA/nbd.sock]
    #[arg(long, value_name = "ADDR|unix:PATH")]
    nbd: Vec<ListenAddress>,

    /// Drive of the pool: block device, file or directory, repeatable [default: a directory in the data directory]
    #[arg(long, value_name = "PATH[=SIZE]", value_parser = drive)]
    drive: Vec<DriveSetting>,

    /// Shards of a new pool, 0 to 256 [default: 0, one for two cores as far as memory.budget suffices]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=256))]
    shards: Option<u16>,

    /// How a new pool on several drives keeps data: none, mirror:N or ec:K+M [default: by the number of drives]
    #[arg(long, value_name = "CLASS")]
    protect: Option<Protection>,

    /// Address for S3 clients, or none [default: 127.0.0.1:9000, if it is free]
    #[arg(long, value_name = "ADDR|none")]
    s3: Option<S3Listen>,

    /// Loopback address for the admin API, in addition to its socket in the data directory
    #[arg(long, value_name = "ADDR")]
    admin: Option<ListenAddress>,

    /// Minimum log level [default: warn]
    #[arg(long, value_name = "LEVEL")]
    log: Option<LogLevel>,

    /// Format of log lines [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,

    /// Open shards although their journal, or part of it, was lost. What only the journal held is gone, on other shards
    /// too, and what is left is of no single moment: see docs/durability.md. Leave it out of later starts
    #[arg(long)]
    accept_lost_journal: bool,

    /// Go on from the drives that are there although missing ones may hold something newer: it is lost then. Where more
    /// drives are missing than the pool survives, only --read-only opens it. Leave it out of later starts
    #[arg(long)]
    degraded: bool,

    /// Serve what can be read without writing to any drive, whatever is missing of a pool with redundancy: changes are
    /// refused, and what lies on drives that are missing gives errors
    #[arg(long, conflicts_with_all = ["degraded", "protect", "shards"])]
    read_only: bool,

    /// Which history of the drives counts, where they went on apart from each other: the others are not read
    #[arg(long, value_name = "ID")]
    history: Option<HistoryId>,

    /// Delay every drive operation by this many µs, to imitate slow media in tests
    #[arg(long, hide = true, value_name = "US", value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    media_delay_us: Option<u64>,

    /// Delay only the drive of this number of a pool with redundancy
    #[arg(long, hide = true, value_name = "DRIVE", requires = "media_delay_us")]
    media_delay_drive: Option<u16>,

    /// Begin to delay drives of a pool with redundancy so many seconds after they were opened
    #[arg(long, hide = true, value_name = "S", requires = "media_delay_us", default_value_t = 0)]
    media_delay_after_s: u32,

    /// Print every setting of the configuration file with its range, default and reason, and exit
    #[arg(long)]
    settings: bool,
}

impl Serve {
    pub(crate) fn run(self, global: &Global) -> Result<String> {
        global.refuse_addr()?;
        if self.settings {
            return Ok(config::document());
        }
        let settings = self.settings(global)?;
        logging::start(settings.log_level, settings.log_format);
        varve_daemon::run(&settings)?;
        Ok(String::new())
    }

    /// Defaults, then the file, then the flags.
    fn settings(self, global: &Global) -> Result<Settings> {
        let mut settings = Settings { data: global.data(), ..Settings::default() };
        let found = settings.data.join(CONFIG_FILE);
        match &self.config {
            Some(file) => config::read(file, &mut settings)?,
            None if found.exists() => config::read(&found, &mut settings)?,
            None => {}
        }
        if let Some(data) = &global.data {
            settings.data.clone_from(data);
        }
        if !self.nbd.is_empty() {
            settings.nbd.listen = self.nbd;
        }
        if !self.drive.is_empty() {
            settings.drives = self.drive;
        }
        settings.shards = self.shards.unwrap_or(settings.shards);
        settings.s3.listen = self.s3.unwrap_or(settings.s3.listen);
        settings.admin_listen = self.admin.or(settings.admin_listen);
        settings.log_level = self.log.unwrap_or(settings.log_level);
        settings.log_format = self.log_format.unwrap_or(settings.log_format);
        settings.media_delay_us = self.media_delay_us.unwrap_or(0);
        settings.media_delay_drive = self.media_delay_drive;
        settings.media_delay_after_s = self.media_delay_after_s;
        settings.accept_lost_journal = self.accept_lost_journal;
        settings.redundancy.protect = self.protect.or(settings.redundancy.protect);
        settings.redundancy.is_degraded = self.degraded;
        settings.redundancy.is_read_only = self.read_only;
        settings.redundancy.history = self.history;
        settings.check()?;
        Ok(settings)
    }
}

pub(crate) fn drive(text: &str) -> std::result::Result<DriveSetting, String> {
    let (path, size) = match text.rsplit_once('=') {
        Some((path, size)) => (path, Some(drive_size(size)?)),
        None => (text, None),
    };
    if path.is_empty() {
        return Err(format!("drive `{text}` has no path"));
    }
    Ok(DriveSetting { path: PathBuf::from(path), size })
}

fn drive_size(text: &str) -> std::result::Result<ByteCount, String> {
    let size = parse_size(text)?;
    if config::DRIVE_BYTES.contains(&size.0) {
        return Ok(size);
    }
    let (min, max) =
        (ByteCount(*config::DRIVE_BYTES.start()), ByteCount(*config::DRIVE_BYTES.end()));
    Err(format!("a drive of {} is not possible: it must have {min} to {max}", size.exact()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_is_a_path_and_maybe_a_size() {
        let parsed = drive("/dev/sdx=4GiB").unwrap();
        assert_eq!((parsed.path, parsed.size.unwrap().0), ("/dev/sdx".into(), 4 << 30));
        assert_eq!(drive("a/b").unwrap().size, None);
        assert!(drive("=4GiB").is_err());
        assert!(drive("a=100MiB").unwrap_err().contains("must have 128 MiB to 1 PiB"));
        assert!(drive("a=4Gx").unwrap_err().contains("unknown unit"));
    }
}
