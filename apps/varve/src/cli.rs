//! What commands have in common: options that all of them or many take, and how values are read and shown.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde_json::json;
use varve_access_admin::ListenAddress;
use varve_access_admin::v1::Reservation;
use varve_client::table::on_off;
use varve_client::{Client, Failure, Result};
use varve_daemon::config::DATA_DEFAULT;
use varve_types::{ByteCount, Compression, Dedup, parse_size};

/// Names the data directory where no option does.
const DATA_VARIABLE: &str = "VARVE_DATA";

/// Where the daemon is.
#[derive(Args, Clone, Debug)]
pub(crate) struct Global {
    /// Data directory of the daemon [default: $VARVE_DATA, or ./varve-data]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Daemon")]
    pub(crate) data: Option<PathBuf>,

    /// Address of the daemon's admin API, instead of its data directory: unix:PATH or IP:PORT
    #[arg(
        long,
        global = true,
        value_name = "ADDR",
        help_heading = "Daemon",
        conflicts_with = "data"
    )]
    pub(crate) addr: Option<ListenAddress>,

    /// File with the token of an admin API at IP:PORT: admin.token in the data directory of its daemon
    #[arg(long, global = true, value_name = "FILE", env = "VARVE_TOKEN_FILE", hide = true)]
    pub(crate) token_file: Option<PathBuf>,
}

impl Global {
    /// The data directory.
    pub(crate) fn data(&self) -> PathBuf {
        let from_environment = || std::env::var_os(DATA_VARIABLE).filter(|path| !path.is_empty());
        let data = self.data.clone().or_else(|| from_environment().map(PathBuf::from));
        data.unwrap_or_else(|| PathBuf::from(DATA_DEFAULT))
    }

    pub(crate) fn client(&self) -> Client {
        let client = match &self.addr {
            Some(address) => Client::at(address.clone()),
            None => Client::of_data(&self.data()),
        };
        client.with_token(self.token_file.clone())
    }

    /// The data directory, for a command that opens the pool itself.
    pub(crate) fn offline_data(&self) -> Result<PathBuf> {
        match self.addr {
            Some(_) => Err(Failure::misuse("`--addr` names a daemon, and this command needs none")
                .hint("name the pool by its data directory with --data, or by --drive")),
            None => Ok(self.data()),
        }
    }

    /// For a command that runs the daemon instead of calling it.
    pub(crate) fn refuse_addr(&self) -> Result<()> {
        match self.addr {
            Some(_) => {
                Err(Failure::misuse("`--addr` names a daemon to call, `serve` is the daemon")
                    .hint("set the address of the admin API with `--admin`"))
            }
            None => Ok(()),
        }
    }
}

/// How a read is printed.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Print JSON as the admin API defines it, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

impl Format {
    /// What a deletion prints: a line for each name, or all names as JSON.
    pub(crate) fn deleted(self, what: &str, names: &[String]) -> String {
        if self.json {
            return format!("{:#}\n", json!({ "deleted": names }));
        }
        names.iter().map(|name| format!("deleted {what} {name}\n")).collect()
    }
}

/// Reads a quota: a size above 0, or `none`, which is 0.
pub(crate) fn quota(text: &str) -> std::result::Result<ByteCount, String> {
    match text {
        "none" => Ok(ByteCount(0)),
        _ => parse_size(text).and_then(|size| {
            let zero = || "a quota of 0 would allow nothing: write `none` for no limit".to_owned();
            Some(size).filter(|size| size.0 > 0).ok_or_else(zero)
        }),
    }
}

/// Reads a compression, and offers its words to shells.
pub(crate) fn compression() -> impl TypedValueParser<Value = Compression> {
    Offer { parser: |text: &str| text.parse::<Compression>(), words: &["off", "lz4", "zstd"] }
}

/// Reads a reservation: `full` or `none`.
pub(crate) fn reservation() -> impl TypedValueParser<Value = Reservation> {
    Offer { parser: parse_reservation, words: &["full", "none"] }
}

/// A parser with words that shells complete; it may take others.
#[derive(Clone)]
struct Offer<P> {
    parser: P,
    words: &'static [&'static str],
}

impl<P: TypedValueParser> TypedValueParser for Offer<P> {
    type Value = P::Value;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> std::result::Result<P::Value, clap::Error> {
        self.parser.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(|word| PossibleValue::new(*word))))
    }
}

fn parse_reservation(text: &str) -> std::result::Result<Reservation, String> {
    match text {
        "full" => Ok(Reservation::Full),
        "none" => Ok(Reservation::None),
        _ => Err(format!(
            "`{text}` is neither `full` nor `none`: space is reserved for all of a volume or for nothing of it"
        )),
    }
}

/// Reads a bound on a number: a number above 0, or `none`, which is 0.
pub(crate) fn bound(text: &str) -> std::result::Result<u64, String> {
    match text {
        "none" => Ok(0),
        _ => text
            .parse()
            .ok()
            .filter(|number| *number > 0)
            .ok_or_else(|| format!("`{text}` is neither a whole number above 0 nor `none`")),
    }
}

/// A quota as people read it.
pub(crate) fn shown_quota(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "none".to_owned(), |bytes| ByteCount(bytes).to_string())
}

/// A bound on a number as people read it.
pub(crate) fn shown_bound(number: Option<u64>) -> String {
    number.map_or_else(|| "none".to_owned(), |number| number.to_string())
}

/// The line below a list that may lack some.
pub(crate) fn incomplete(reason: Option<&str>) -> String {
    reason.map_or_else(String::new, |reason| format!("incomplete: {reason}: see `varve status`\n"))
}

/// How new blocks of a volume or bucket are to be reduced; what is not given stays as it is.
#[derive(Args, Debug)]
pub(crate) struct ReductionChange {
    /// Store identical blocks only once: where it pays (auto), always (on) or never (off)
    #[arg(long, value_parser = dedup())]
    pub(crate) dedup: Option<Dedup>,

    /// Compression of blocks: off, lz4 or zstd:LEVEL, levels 1 to 19, default 3
    #[arg(long, value_parser = compression(), hide_possible_values = true)]
    pub(crate) compression: Option<Compression>,
}

/// Reads `auto`, `on` or `off`.
pub(crate) fn dedup() -> impl TypedValueParser<Value = Dedup> {
    PossibleValuesParser::new(Dedup::ALL.map(Dedup::word))
        .map(|word| word.parse().expect("one of the words"))
}

/// Reads `on` or `off`.
pub(crate) fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new([on_off(true), on_off(false)]).map(|word| word == on_off(true))
}
