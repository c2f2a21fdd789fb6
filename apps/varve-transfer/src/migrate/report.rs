//! What came of a migration, for people and programs.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;
use varve_client::Failure;
use varve_types::ByteCount;

/// What came of one volume or bucket, or would.
#[derive(Serialize, Default)]
pub(crate) struct MoveReport {
    /// The volume or bucket.
    pub(crate) name: String,
    /// What was done, or is to be done.
    pub(crate) what: String,
    /// Bytes that were sent, in all rounds together.
    pub(crate) sent_bytes: u64,
    /// How many snapshots and differences were sent, or how often a bucket was gone through for what had changed.
    pub(crate) rounds: u64,
    pub(crate) elapsed_ms: u64,
    /// How long clients were refused before it was there; absent when this run did not refuse them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refused_ms: Option<u64>,
    /// What the user should know of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

/// What came of all of them.
#[derive(Serialize, Default)]
pub struct MigrationOutcome {
    /// A report for each volume.
    pub(crate) volumes: Vec<MoveReport>,
    /// A report for each bucket.
    pub(crate) buckets: Vec<MoveReport>,
    /// What the user should know of all of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
}

pub(super) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl MigrationOutcome {
    /// A failure, with what was done with the others before it.
    pub(super) fn beside(&self, failure: Failure, done: &str) -> Failure {
        let all = self.volumes.iter().chain(&self.buckets);
        let names: Vec<&str> = all.map(|moved| moved.name.as_str()).collect();
        if names.is_empty() {
            return failure;
        }
        failure.prefixed(&format!("{} {done}; then: ", names.join(", ")))
    }

    /// As text, one volume a line, or as JSON.
    pub fn print(&self, json: bool) -> String {
        if json {
            return format!("{:#}\n", serde_json::to_value(self).expect("it is plain JSON"));
        }
        let mut text = String::new();
        let volumes = self.volumes.iter().map(|moved| ("volume", "writes", moved));
        let buckets = self.buckets.iter().map(|moved| ("bucket", "changes", moved));
        for (noun, refused, moved) in volumes.chain(buckets) {
            let MoveReport { name, what, sent_bytes, rounds, elapsed_ms, refused_ms, notes } =
                moved;
            let _ = write!(text, "{noun} {name}: {what}");
            if *rounds > 0 {
                let seconds = Duration::from_millis(*elapsed_ms).as_secs_f64();
                let sent = ByteCount(*sent_bytes);
                let _ = write!(text, ", {sent} in {rounds} rounds and {seconds:.1} s");
            }
            if let Some(refused_ms) = refused_ms {
                let _ = write!(text, ", {refused} were refused for {refused_ms} ms");
            }
            text.push('\n');
            for note in notes {
                let _ = writeln!(text, "  {note}");
            }
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        if text.is_empty() { "nothing to move\n".to_owned() } else { text }
    }
}
