//! What travels in answers about drives and about how safe what they hold is. Fields are only ever added.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::v1::conditions::DriveCondition;

/// A block device, file or directory that holds part of the pool.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Drive {
    /// Where it is; of a drive that is missing, where it was last.
    pub path: String,
    /// How much of it holds segments, in bytes; absent when that is all of a block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Failed reads since the daemon started.
    #[serde(default)]
    pub read_errors: u64,
    /// Failed writes and flushes since then.
    #[serde(default)]
    pub write_errors: u64,
    /// Strips and labels since then that were not what they should have been; of pools with redundancy over drives.
    #[serde(default)]
    pub checksum_errors: u64,
    /// Operations since then that it did not answer in time; of such pools.
    #[serde(default)]
    pub timeouts: u64,
    /// Its number in the pool. Here and below: absent where the pool has no redundancy over drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u8>,
    /// Its identity: 32 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Model and serial number, or what it was called when it joined the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its class: `nvme`, `ssd`, `hdd` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// What it is to the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DriveState>,
    /// Since when it is in that state, in milliseconds since 1970 UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_unix_ms: Option<u64>,
    /// Whether it gets no new data, as it is much slower than the others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_slow: bool,
    /// Bytes of it that are given to zones and journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes that its file or device has beyond `size_bytes`, of which the pool uses none; absent where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub growable_bytes: Option<u64>,
    /// What it says of itself; absent where nobody asks, as in a pool on RADOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<DriveCondition>,
}

/// Digits of an identity that name a drive, at least.
const ID_DIGITS_MIN: usize = 4;

/// Why a name means no drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveNameFault {
    /// There is none.
    Unknown,
    /// Several identities begin so.
    Several,
}

impl DriveNameFault {
    /// What is wrong with the name, for people.
    #[must_use]
    pub fn message(self, name: &str) -> String {
        match self {
            Self::Unknown => format!("the pool has no drive {name}"),
            Self::Several => format!("several drives have an identity that begins with {name}"),
        }
    }

    /// What to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Unknown => "`varve drive list` shows its drives",
            Self::Several => "give more of its digits, or its number",
        }
    }
}

/// The one drive that a number, a path or the beginning of an identity means.
///
/// # Errors
/// Where there is none, or several have an identity that begins so.
pub fn find_drive<'a>(
    drives: &'a [Drive],
    name: &str,
) -> std::result::Result<&'a Drive, DriveNameFault> {
    let by_number = |drive: &&Drive| drive.number.is_some_and(|it| it.to_string() == name);
    let by_path = |drive: &&Drive| drive.path == name;
    let digits = name.to_ascii_lowercase();
    let by_id = |drive: &&Drive| {
        let is_begun = |id: &String| id.starts_with(&digits) && digits.len() >= ID_DIGITS_MIN;
        drive.id.as_ref().is_some_and(is_begun)
    };
    let exact = drives.iter().find(by_number).or_else(|| drives.iter().find(by_path));
    if let Some(drive) = exact {
        return Ok(drive);
    }
    let mut begun = drives.iter().filter(by_id);
    match (begun.next(), begun.next()) {
        (Some(drive), None) => Ok(drive),
        (Some(_), Some(_)) => Err(DriveNameFault::Several),
        (None, _) => Err(DriveNameFault::Unknown),
    }
}

/// What a drive is to its pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DriveState {
    /// It is read and written.
    Live,
    /// Tables and roots are being written to it.
    Joining,
    /// It is read, and what it has is moved elsewhere.
    Leaving,
    /// It is not read any more, whatever it holds.
    Failed,
    /// It left, or failed and nothing names it any more.
    Gone,
}

impl DriveState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Live, Self::Joining, Self::Leaving, Self::Failed, Self::Gone];

    /// The word for it, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Joining => "joining",
            Self::Leaving => "leaving",
            Self::Failed => "failed",
            Self::Gone => "gone",
        }
    }
}

/// The pool's drives, by number where they have one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct DriveList {
    /// All of them, those that failed too.
    pub drives: Vec<Drive>,
    /// Cells of the pool that did not answer in time: what they hold is missing here. Nothing where all did, or there
    /// is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// How safe what the pool holds is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// The worst of what the reasons say.
    pub state: HealthState,
    /// How many drives may be lost at once without loss of data, whichever they are; absent when data are lost, and
    /// where that is not known, as in a pool on RADOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub survives: Option<u8>,
    /// Why it is not `ok`, the worst first.
    #[serde(default)]
    pub reasons: Vec<HealthReason>,
    /// Cells of the pool that did not answer in time. Nothing where all did, or there is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_cells: Vec<u16>,
}

/// How safe what a pool holds is. A later one outweighs those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Everything is kept as promised, and that is proven.
    Ok,
    /// Full redundancy is not proven.
    Attention,
    /// The next lost drive may take data.
    AtRisk,
    /// It cannot be told.
    Unknown,
    /// Something cannot be read.
    Lost,
}

impl HealthState {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ok, Self::Attention, Self::AtRisk, Self::Unknown, Self::Lost];

    /// What `varve health` exits with.
    #[must_use]
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Attention => 1,
            Self::AtRisk => 2,
            Self::Lost => 3,
            Self::Unknown => 4,
        }
    }

    /// The word for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Attention => "attention",
            Self::AtRisk => "at risk",
            Self::Unknown => "unknown",
            Self::Lost => "lost",
        }
    }
}

/// Why a pool is not `ok`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct HealthReason {
    /// How the pool is for this reason alone.
    pub state: HealthState,
    /// What is so, in words.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Health {
    /// The health for these reasons, which need no order; `ok` where there is none.
    #[must_use]
    pub fn of(mut reasons: Vec<HealthReason>, survives: Option<u8>) -> Self {
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.state));
        let state = reasons.first().map_or(HealthState::Ok, |reason| reason.state);
        Self { state, survives, reasons, missing_cells: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_reason_is_the_state() {
        let reason = |state: HealthState| HealthReason {
            state,
            message: state.word().to_owned(),
            advice: "wait".to_owned(),
        };
        assert_eq!(Health::of(Vec::new(), Some(2)).state, HealthState::Ok);
        let all = HealthState::ALL.into_iter().map(reason).collect();
        let health = Health::of(all, None);
        let states: Vec<_> = health.reasons.iter().map(|reason| reason.state).collect();
        let mut expected = HealthState::ALL;
        expected.reverse();
        assert_eq!((health.state, &states[..]), (HealthState::Lost, &expected[..]));
        let codes = HealthState::ALL.map(HealthState::exit_code);
        assert_eq!(codes, [0, 1, 2, 4, 3], "lost outweighs unknown, and has its own code");
    }

    #[test]
    fn a_drive_goes_by_number_path_or_the_beginning_of_its_identity() {
        let drive = |number: u8, id: &str| Drive {
            path: format!("/srv/{number}"),
            number: Some(number),
            id: Some(id.to_owned()),
            ..Drive::default()
        };
        let drives = [drive(0, "abcd01"), drive(1, "abcd02"), drive(12, "1212ff")];
        let number = |name: &str| find_drive(&drives, name).map(|drive| drive.number.unwrap());
        assert_eq!(number("1"), Ok(1), "no beginning of an identity");
        assert_eq!(number("/srv/12"), Ok(12));
        assert_eq!(number("ABCD02"), Ok(1));
        assert_eq!(number("abcd"), Err(DriveNameFault::Several));
        for name in ["7", "abc", "/srv", ""] {
            assert_eq!(number(name), Err(DriveNameFault::Unknown), "{name}");
        }
    }

    #[test]
    fn words_of_states_are_those_of_the_wire() {
        for state in DriveState::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.word());
        }
    }
}
