//! `varve pool set`: how the pool keeps data over its drives.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hyper::Method;
use varve_access_admin::v1::{ChangePool, DriveMoves, PoolChange};
use varve_client::{Client, Failure, Result, age};
use varve_media_redundancy::Protection;
use varve_types::ByteCount;

use crate::cli::Format;

/// Pause between two looks how far a conversion is.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a line says how far it is, at most.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Change how the pool keeps data over its drives, and convert what is stored, while it serves
///
/// It says first what the pool holds and survives then, and is refused where drives are too few or have no room.
/// Clients go on meanwhile. It goes on after a restart, and can be turned around at any time.
#[derive(Args, Debug)]
pub(crate) struct PoolSet {
    /// How data are to be kept: none, mirror:N or ec:K+M
    #[arg(long, value_name = "CLASS", required_unless_present = "cancel")]
    protect: Option<Protection>,

    /// Turn a conversion around: back to how most of what is not converted is kept
    #[arg(long, conflicts_with = "protect")]
    cancel: bool,

    /// Only say what would follow
    #[arg(long)]
    dry_run: bool,

    /// Return once all is converted, and say how far it is meanwhile
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    #[command(flatten)]
    format: Format,
}

impl PoolSet {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        let change = ChangePool {
            protect: self.protect.map(|protect| protect.to_string()),
            cancel: self.cancel,
            dry_run: self.dry_run,
        };
        let answer = client.send::<PoolChange>(Method::PATCH, "/v1/pool", &change)?;
        if !self.wait {
            return Ok(answer.print(self.format.json, |change| describe(&change)));
        }
        let protect = answer.value.protect.clone();
        note(describe(&answer.value).trim_end());
        let moves = converted(client, &protect)?;
        if self.format.json {
            return Ok(format!("{:#}\n", serde_json::json!(moves)));
        }
        Ok(format!("all zones are {protect}\n"))
    }
}

/// What follows, in a few lines.
fn describe(change: &PoolChange) -> String {
    let PoolChange { protect, protect_before, survives, unconverted, .. } = change;
    let sizes = [change.usable_bytes, change.raw_bytes, change.usable_before_bytes];
    let [usable, raw, before] = sizes.map(ByteCount);
    let lost = match survives {
        0 => "a lost drive loses the pool".to_owned(),
        1 => "survives the loss of any drive".to_owned(),
        lost => format!("survives the loss of any {lost} drives"),
    };
    let mut text =
        format!("{protect}: {usable} usable of {raw}, {lost} ({protect_before}: {before})\n");
    let zones =
        if *unconverted == 1 { "1 zone".to_owned() } else { format!("{unconverted} zones") };
    let _ = match (change.dry_run, unconverted) {
        (true, _) => writeln!(text, "{zones} would be converted; nothing was changed"),
        (false, 0) => writeln!(text, "nothing has to be converted"),
        (false, _) => writeln!(
            text,
            "{zones} are converted while the pool serves; `varve drive moves` shows how far that is"
        ),
    };
    text
}

/// How far a conversion was when it was looked at.
struct ConversionPace {
    began: Instant,
    unconverted: u64,
    bytes_written: u64,
}

impl ConversionPace {
    /// How far it is, how fast, and how long it takes by that.
    fn line(&self, now: &DriveMoves, elapsed: Duration) -> String {
        let left = now.unconverted;
        let seconds = elapsed.as_secs().max(1);
        let written = now.bytes_written.saturating_sub(self.bytes_written);
        let rate = ByteCount(written / seconds);
        let done = self.unconverted.saturating_sub(left);
        let end = match done {
            0 => String::new(),
            _ => {
                let left_ms = seconds.saturating_mul(1000).saturating_mul(left) / done;
                format!(", some {} left", age::span(left_ms))
            }
        };
        let waits = now.moves.iter().find_map(|zone| zone.waits_for.as_ref());
        let waits = waits.map(|what| format!("; waits for {what}")).unwrap_or_default();
        format!("{left} zones to convert, {rate}/s written{end}{waits}")
    }
}

/// Says something beside the answer.
fn note(text: &str) {
    // Nobody is left to tell when stderr is closed.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns once all zones are of the class; says how far it is.
fn converted(client: &Client, protect: &str) -> Result<DriveMoves> {
    let look = || client.get::<DriveMoves>("/v1/moves").map(|answer| answer.value);
    let first = look()?;
    let (unconverted, bytes_written) = (first.unconverted, first.bytes_written);
    let pace = ConversionPace { began: Instant::now(), unconverted, bytes_written };
    let mut said = Instant::now();
    let mut now = first;
    while now.unconverted > 0 {
        thread::sleep(PAUSE);
        now = look()?;
        if said.elapsed() >= LINE_EVERY {
            said = Instant::now();
            note(&pace.line(&now, pace.began.elapsed()));
        }
    }
    let pool = client.get::<varve_access_admin::v1::Pool>("/v1/pool")?.value;
    if pool.protect.as_deref() == Some(protect) {
        return Ok(now);
    }
    let found = pool.protect.unwrap_or_default();
    Err(Failure::new(format!("the pool was set to {found} meanwhile"))
        .hint("`varve pool show` says how data are kept"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_said_with_what_was() {
        let change = PoolChange {
            protect: "ec:4+2".to_owned(),
            protect_before: "mirror:2".to_owned(),
            survives: 2,
            usable_bytes: 40 << 30,
            usable_before_bytes: 30 << 30,
            raw_bytes: 60 << 30,
            zones: 9,
            unconverted: 9,
            dry_run: false,
        };
        let text = describe(&change);
        let expected = "ec:4+2: 40 GiB usable of 60 GiB, survives the loss of any 2 drives (mirror:2: 30 GiB)\n9 zones are converted";
        assert!(text.starts_with(expected), "{text}");
        let dry = describe(&PoolChange { dry_run: true, unconverted: 1, ..change.clone() });
        assert!(dry.ends_with("1 zone would be converted; nothing was changed\n"), "{dry}");
        let none = describe(&PoolChange { unconverted: 0, survives: 0, ..change });
        assert!(none.contains("a lost drive loses the pool"), "{none}");
        assert!(none.ends_with("nothing has to be converted\n"), "{none}");
    }

    #[test]
    fn the_end_is_told_from_the_pace() {
        let pace =
            ConversionPace { began: Instant::now(), unconverted: 40, bytes_written: 1 << 20 };
        let now = DriveMoves {
            unconverted: 30,
            bytes_written: (1 << 20) + (200 << 20),
            ..DriveMoves::default()
        };
        let line = pace.line(&now, Duration::from_secs(20));
        let end = age::span(60_000);
        assert_eq!(line, format!("30 zones to convert, 10 MiB/s written, some {end} left"));
        let stuck = DriveMoves { unconverted: 40, ..now };
        assert!(!pace.line(&stuck, Duration::from_secs(20)).contains("left"), "nothing is done");
    }
}
