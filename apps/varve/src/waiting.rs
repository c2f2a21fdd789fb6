//! `--wait` of commands that move data: how far it is, until nothing is left. Ctrl-C ends the wait alone.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use varve_access_admin::v1::{DriveList, DriveMoves, ScrubState, ScrubStatus};
use varve_client::{ApiAnswer, Client, Failure, Progress, Result, age};
use varve_types::ByteCount;

use crate::cli::Format;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Part of the pause after which Ctrl-C is noticed.
const TICK: Duration = Duration::from_millis(100);
/// How long everything that is left may wait without a step, before the command gives up.
const STUCK: Duration = Duration::from_secs(60);
/// Exit code of a wait that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Whether to wait for what follows.
#[derive(Args, Debug)]
pub(crate) struct WaitFlag {
    /// Wait until nothing is left to do, and show how far it is; Ctrl-C ends the wait, and nothing else
    #[arg(long)]
    wait: bool,
}

/// What was begun.
pub(crate) struct BegunMove<'a> {
    /// What the daemon says.
    pub(crate) answer: ApiAnswer<DriveMoves>,
    /// What that is, in words.
    pub(crate) what: &'a str,
    /// The drive that goes, by its number.
    pub(crate) leaves: Option<u8>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MoveEnd {
    /// No zone is to be moved.
    Moved,
    /// The same, and the drive of a number has left.
    Left(u8),
    /// All zones are kept as new ones are.
    Converted,
}

impl MoveEnd {
    fn is_reached(self, now: &DriveMoves) -> bool {
        match self {
            Self::Moved => now.zones == 0,
            Self::Left(drive) => now.zones == 0 && !now.removing.contains(&drive),
            Self::Converted => now.unconverted == 0,
        }
    }
}

impl WaitFlag {
    pub(crate) const fn is_set(&self) -> bool {
        self.wait
    }

    /// What to print of a move that was begun; with the flag, once it is over.
    pub(crate) fn moves(
        &self,
        client: &Client,
        begun: BegunMove<'_>,
        format: &Format,
    ) -> Result<String> {
        let BegunMove { answer, what, leaves } = begun;
        if !self.wait {
            return Ok(answer.print(format.json, |it| format!("{what}\n{}", outlook(&it))));
        }
        if !format.json {
            crate::output::print(&format!("{what}\n"))?;
        }
        let ended = wait_for_moves(client, leaves.map_or(MoveEnd::Moved, MoveEnd::Left))?;
        if let Some(drive) = leaves {
            check_left(client, drive)?;
        }
        let done = match leaves {
            Some(drive) => format!("nothing is left to move, and drive {drive} has left\n"),
            None => "nothing is left to move\n".to_owned(),
        };
        Ok(ended.print(format.json, |_| done))
    }

    /// The scrub when it is over.
    pub(crate) fn scrub(&self, client: &Client) -> Result<ApiAnswer<ScrubStatus>> {
        let progress = Progress::open_ended();
        let drives = client.get::<DriveList>("/v1/drives")?.value.drives;
        let ended = loop {
            let answer = client.get::<ScrubStatus>("/v1/scrub")?;
            let status = &answer.value;
            if status.state != ScrubState::Running {
                break Ok(answer);
            }
            let is_of = |number: u8| status.drives.is_empty() || status.drives.contains(&number);
            let used = drives.iter().filter(|it| it.number.is_some_and(is_of));
            let all: u64 = used.filter_map(|it| it.used_bytes).sum();
            progress.say(scrubbed(status, all));
            if !pause(&progress) {
                break Err(interrupted("the scrub goes on", "varve drive scrub --show"));
            }
        };
        progress.end();
        ended
    }
}

/// How far a scrub is; it reads at most what zones and journals have.
fn scrubbed(status: &ScrubStatus, all_bytes: u64) -> String {
    let elapsed_ms = age::now_unix_ms().saturating_sub(status.since_unix_ms).max(1);
    let rate = status.bytes.saturating_mul(1000) / elapsed_ms;
    let left_ms = all_bytes.saturating_sub(status.bytes).saturating_mul(1000).checked_div(rate);
    let left = left_ms.map_or_else(String::new, |ms| format!(", at most {} left", age::span(ms)));
    let (bytes, all) = (ByteCount(status.bytes), ByteCount(all_bytes));
    format!("{bytes} of at most {all}, {} a second{left}", ByteCount(rate))
}

/// What follows from a change of drives, in a line or two.
fn outlook(moves: &DriveMoves) -> String {
    match moves.zones {
        0 => "nothing has to be moved now; `varve drive moves` shows what will be\n".to_owned(),
        1 => "1 zone is to be moved; `varve drive moves` shows how far that is\n".to_owned(),
        zones => {
            format!("{zones} zones are to be moved; `varve drive moves` shows how far that is\n")
        }
    }
}

/// What is moved, once that has ended; shows how far it is meanwhile.
pub(crate) fn wait_for_moves(client: &Client, end: MoveEnd) -> Result<ApiAnswer<DriveMoves>> {
    let (progress, began) = (Progress::open_ended(), Instant::now());
    let (mut first, mut stuck) = (None, StuckMoves::default());
    let ended = loop {
        let answer = client.get::<DriveMoves>("/v1/moves")?;
        let now = &answer.value;
        if end.is_reached(now) {
            break Ok(answer);
        }
        let (zones, bytes) = *first.get_or_insert((now.zones, now.bytes_written));
        let part = MovedPart {
            elapsed: began.elapsed(),
            zones: zones.saturating_sub(now.zones),
            bytes: now.bytes_written.saturating_sub(bytes),
        };
        progress.say(part.describe(now));
        if let Some(what) = stuck.look(now, part.elapsed) {
            let why = format!("not waited for any longer: {} zones wait for {what}", now.zones);
            break Err(Failure::new(why).hint(
                "they move on by themselves once that is there; `varve drive moves` shows it",
            ));
        }
        if !pause(&progress) {
            break Err(interrupted("what is moved is moved on", "varve drive moves"));
        }
    };
    progress.end();
    ended
}

/// Whether nothing goes on, as everything that is left waits for something.
#[derive(Default)]
struct StuckMoves {
    /// Zones and bytes when something went on last, and when that was.
    last: (u64, u64),
    since: Duration,
}

impl StuckMoves {
    /// For what all that is left has waited so long that it may be for ever.
    fn look<'a>(&mut self, now: &'a DriveMoves, elapsed: Duration) -> Option<&'a str> {
        let is_waiting = now.moves.iter().all(|it| it.waits_for.is_some());
        if !is_waiting || self.last != (now.zones, now.bytes_written) {
            (self.last, self.since) = ((now.zones, now.bytes_written), elapsed);
        }
        let what = now.moves.first()?.waits_for.as_deref()?;
        (elapsed - self.since >= STUCK).then_some(what)
    }
}

/// What was moved since the wait began.
struct MovedPart {
    elapsed: Duration,
    zones: u64,
    bytes: u64,
}

impl MovedPart {
    fn describe(&self, now: &DriveMoves) -> String {
        let elapsed_ms = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = ByteCount(self.bytes.saturating_mul(1000) / elapsed_ms);
        // By zones: how much of each is held shows only when it moves.
        let left = elapsed_ms.saturating_mul(now.zones).checked_div(self.zones);
        let left = left.map_or_else(String::new, |ms| format!(", about {} left", age::span(ms)));
        let waits = now.moves.iter().find_map(|it| it.waits_for.as_deref());
        let waits = waits.map_or_else(String::new, |what| format!("; waits for {what}"));
        format!("{} zones to move, {rate} written a second{left}{waits}", now.zones)
    }
}

/// Fails where a drive is part of the pool that was to leave: somebody had it stay.
fn check_left(client: &Client, drive: u8) -> Result<()> {
    let drives = client.get::<DriveList>("/v1/drives")?.value.drives;
    match drives.iter().any(|it| it.number == Some(drive)) {
        true => Err(Failure::new(format!("drive {drive} has not left: it was told to stay"))
            .hint("`varve drive list` shows in which state it is")),
        false => Ok(()),
    }
}

/// Waits for a moment; false when somebody wishes to end.
fn pause(progress: &Progress) -> bool {
    let until = Instant::now() + PAUSE;
    while Instant::now() < until && !progress.is_stopped() {
        thread::sleep(TICK);
    }
    !progress.is_stopped()
}

fn interrupted(what: &str, command: &str) -> Failure {
    Failure::with_code(format!("not waited for to the end: {what}"), INTERRUPTED)
        .hint(format!("`{command}` shows how far it is"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_what_it_is_for() {
        let now = |zones, unconverted, removing: &[u8]| DriveMoves {
            zones,
            unconverted,
            removing: removing.to_vec(),
            ..DriveMoves::default()
        };
        assert!(MoveEnd::Moved.is_reached(&now(0, 0, &[1])));
        assert!(!MoveEnd::Moved.is_reached(&now(1, 0, &[])));
        assert!(MoveEnd::Left(2).is_reached(&now(0, 0, &[1])));
        assert!(!MoveEnd::Left(1).is_reached(&now(0, 0, &[1])), "it has not left");
        assert!(MoveEnd::Converted.is_reached(&now(3, 0, &[1])), "others move on");
        assert!(!MoveEnd::Converted.is_reached(&now(3, 1, &[])));
    }

    #[test]
    fn a_wait_ends_when_everything_waits_for_long() {
        let waiting = |zones, what: Option<&str>| {
            let json = serde_json::json!({
                "zone": 1, "why": "rebuild", "bytes_done": 0, "bytes_total": 9, "bytes_per_s": 0,
                "since_unix_ms": 1, "waits_for": what,
            });
            let moves = vec![serde_json::from_value(json).unwrap()];
            DriveMoves { zones, moves, ..DriveMoves::default() }
        };
        let room = waiting(3, Some("room"));
        let mut stuck = StuckMoves::default();
        assert_eq!(stuck.look(&room, Duration::from_secs(1)), None);
        assert_eq!(stuck.look(&room, STUCK), None);
        assert_eq!(stuck.look(&room, STUCK + Duration::from_secs(1)), Some("room"));
        assert_eq!(stuck.look(&waiting(2, Some("room")), 2 * STUCK), None, "one was moved");
        assert_eq!(stuck.look(&waiting(2, None), 4 * STUCK), None, "one moves");
        assert_eq!(stuck.look(&DriveMoves::default(), 9 * STUCK), None, "none was looked at yet");
    }

    #[test]
    fn what_is_left_follows_from_what_was_moved() {
        let now = DriveMoves { zones: 30, ..DriveMoves::default() };
        let part = MovedPart { elapsed: Duration::from_secs(20), zones: 10, bytes: 40 << 20 };
        assert_eq!(
            part.describe(&now),
            "30 zones to move, 2 MiB written a second, about 1 min left"
        );
        let begun = MovedPart { elapsed: Duration::ZERO, zones: 0, bytes: 0 };
        assert_eq!(begun.describe(&now), "30 zones to move, 0 B written a second");
        let status = ScrubStatus {
            bytes: 1 << 30,
            since_unix_ms: age::now_unix_ms() - 64_000,
            ..ScrubStatus::default()
        };
        let text = scrubbed(&status, 3 << 30);
        assert!(text.starts_with("1 GiB of at most 3 GiB, "), "{text}");
        assert!(text.ends_with(", at most 2 min left"), "{text}");
    }
}
