//! `varve drive`: the drives of the pool.

mod add;
mod drain;
mod grow;
mod list;
mod locate;
mod moves;
mod remove;
mod replace;
mod scrub;
mod set;
mod show;

use clap::{Args, Subcommand};
use hyper::Method;
use varve_access_admin::NO_REDUNDANCY_HINT;
use varve_access_admin::v1::{
    AddDrive, Drive, DriveCondition, DriveList, DriveMoves, DriveNameFault, find_drive,
};
use varve_client::{Client, Failure, Result, age};
use varve_daemon::config::DriveSetting;
use varve_media_redundancy::MediumKind;
use varve_types::ByteCount;

use crate::cli::Format;
use crate::waiting::{BegunMove, WaitFlag};

/// What a drive is.
#[derive(Args, Debug)]
struct ClassFlag {
    /// What the new drive is, where the system does not know that: nvme, ssd or hdd
    #[arg(long)]
    class: Option<MediumKind>,
}

/// Show and change the drives of the pool
#[derive(Subcommand, Debug)]
pub(crate) enum DriveCommand {
    #[command(visible_alias = "ls")]
    List(list::DriveListCommand),
    Show(show::DriveShow),
    Add(add::DriveAdd),
    Remove(remove::DriveRemove),
    Drain(drain::DriveDrain),
    Replace(replace::DriveReplace),
    Grow(grow::DriveGrow),
    Set(set::DriveSet),
    Moves(moves::DriveMovesCommand),
    Scrub(scrub::DriveScrub),
    Locate(locate::DriveLocate),
}

impl DriveCommand {
    pub(crate) fn run(self, client: &Client) -> Result<String> {
        match self {
            Self::List(command) => command.run(client),
            Self::Show(command) => command.run(client),
            Self::Add(command) => command.run(client),
            Self::Remove(command) => command.run(client),
            Self::Drain(command) => command.run(client),
            Self::Replace(command) => command.run(client),
            Self::Grow(command) => command.run(client),
            Self::Set(command) => command.run(client),
            Self::Moves(command) => command.run(client),
            Self::Scrub(command) => command.run(client),
            Self::Locate(command) => command.run(client),
        }
    }
}

/// The one drive that is meant.
pub(crate) fn find<'a>(drives: &'a [Drive], name: &str) -> Result<&'a Drive> {
    // A drive may be named as it was when it was added: relative to where the command runs.
    let absolute = std::path::absolute(name).unwrap_or_default();
    let found = find_drive(drives, name);
    let found =
        found.or_else(|fault| find_drive(drives, &absolute.to_string_lossy()).map_err(|_| fault));
    found.map_err(|fault| {
        let message = fault.message(name);
        let failure = match fault {
            DriveNameFault::Unknown => Failure::new(message),
            DriveNameFault::Several => Failure::misuse(message),
        };
        failure.hint(fault.advice())
    })
}

/// Its state and what goes with it; of a pool without redundancy all drives are in use.
pub(crate) fn state(drive: &Drive) -> String {
    let state = drive.state.map_or("in use", |state| state.word());
    if drive.is_slow { format!("{state}, slow") } else { state.to_owned() }
}

/// What failed on it.
pub(crate) fn errors(drive: &Drive) -> String {
    let counts = [
        (drive.read_errors, "reads"),
        (drive.write_errors, "writes"),
        (drive.checksum_errors, "checksums"),
        (drive.timeouts, "timeouts"),
    ];
    let some = counts.iter().filter(|(count, _)| *count > 0);
    let words: Vec<_> = some.map(|(count, what)| format!("{count} {what}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// What it says of itself, in a word or two. What is not known is never called well.
pub(crate) fn condition(drive: &Drive) -> String {
    let Some(condition) = &drive.condition else { return "-".to_owned() };
    let DriveCondition { known, warnings, .. } = condition;
    match (known, &warnings[..]) {
        (false, _) => "not known".to_owned(),
        (true, []) => "ok".to_owned(),
        (true, [one]) => one.kind.replace('_', " "),
        (true, [first, more @ ..]) => format!("{} + {}", first.kind.replace('_', " "), more.len()),
    }
}

/// How large it is, and whether it could be larger.
pub(crate) fn size(drive: &Drive) -> String {
    let size =
        drive.size_bytes.map_or_else(|| "all".to_owned(), |bytes| ByteCount(bytes).to_string());
    if drive.growable_bytes.is_some() { format!("{size}, can grow") } else { size }
}

fn number(drive: &Drive) -> String {
    drive.number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn used(drive: &Drive) -> String {
    drive.used_bytes.map_or_else(|| "-".to_owned(), |bytes| ByteCount(bytes).to_string())
}

fn since(drive: &Drive) -> String {
    drive.since_unix_ms.map_or_else(|| "-".to_owned(), age::since)
}

/// The path is that of this process, not of the daemon.
fn absolute_drive(drive: &DriveSetting, class: &ClassFlag) -> Result<AddDrive> {
    let path = std::path::absolute(&drive.path)
        .map_err(|error| Failure::misuse(format!("drive {}: {error}", drive.path.display())))?;
    let size_bytes = drive.size.map(|size| size.0);
    let class = class.class.map(|class| class.word().to_owned());
    Ok(AddDrive { path: path.display().to_string(), size_bytes, class })
}

/// Has a drive stay that leaves.
fn keep(client: &Client, number: u8, wait: &WaitFlag, format: &Format) -> Result<String> {
    let path = format!("/v1/drives/{number}/drain");
    let answer = client.send::<DriveMoves>(Method::DELETE, &path, &serde_json::json!({}))?;
    let what = format!("drive {number} stays");
    wait.moves(client, BegunMove { answer, what: &what, leaves: None }, format)
}

/// The number of the drive that is meant.
fn number_of(client: &Client, name: &str) -> Result<u8> {
    let list = client.get::<DriveList>("/v1/drives")?.value;
    find(&list.drives, name)?.number.ok_or_else(|| {
        Failure::new("this pool has no redundancy over drives, which cannot be changed then")
            .hint(NO_REDUNDANCY_HINT)
    })
}
