//! What a check found, as text and as JSON.

use serde::Serialize;
use varve_types::CellId;

use super::finding::{CheckFinding, FILE_MISSING, FINDINGS_MAX, Severity};
use super::shard::ShardSummary;

/// What a check found, as `--json` prints it.
#[derive(Serialize, Debug, Default)]
pub struct CheckReport {
    /// Version of the report's form.
    pub(super) version: u32,
    pub(super) pool: Option<String>,
    /// Whether data were skipped.
    pub(super) quick: bool,
    /// Whether it was ended before it saw everything.
    pub stopped: bool,
    /// How many findings are errors.
    pub errors: u64,
    pub(super) warnings: u64,
    pub(super) notes: u64,
    /// Whether a daemon took the pool meanwhile: then nothing of this counts.
    pub taken: bool,
    /// Of a pool that is made of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) objects: Option<ObjectSummary>,
    /// What each shard holds.
    pub(super) shards: Vec<ShardSummary>,
    pub(super) findings: Vec<CheckFinding>,
}

/// The objects of a pool on RADOS.
#[derive(Serialize, Clone, Copy, Default, Debug)]
pub(super) struct ObjectSummary {
    /// In the data pool.
    pub(super) data_objects: u64,
    /// In the metadata pool.
    pub(super) meta_objects: u64,
    /// Those that are segments.
    pub(super) segments: u64,
    /// Segments that nothing uses.
    pub(super) unused: u64,
    /// Objects that are nothing of the pool's, by their names.
    pub(super) unknown: u64,
    /// Objects that are not there and should be.
    pub(super) missing: u64,
}

impl ObjectSummary {
    fn add(&mut self, other: Self) {
        let Self { data_objects, meta_objects, segments, unused, unknown, missing } = other;
        self.data_objects += data_objects;
        self.meta_objects += meta_objects;
        self.segments += segments;
        self.unused += unused;
        self.unknown += unknown;
        self.missing += missing;
    }
}

impl CheckReport {
    /// Takes over what was found in a cell, or in the pool that has no several.
    pub(super) fn take_cell(&mut self, found: Self, cell: Option<CellId>) {
        let cell = cell.map(|cell| cell.0);
        self.pool = self.pool.take().or(found.pool);
        self.errors += found.errors;
        self.warnings += found.warnings;
        self.notes += found.notes;
        let findings = found.findings.into_iter();
        self.findings.extend(findings.map(|finding| CheckFinding { cell, ..finding }));
        self.findings.sort_by_key(|finding| finding.severity);
        self.findings.truncate(FINDINGS_MAX);
        self.shards.extend(found.shards.into_iter().map(|shard| ShardSummary { cell, ..shard }));
        if let Some(objects) = found.objects {
            self.objects.get_or_insert_default().add(objects);
        }
    }

    pub(super) fn add(&mut self, finding: CheckFinding) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => self.notes += 1,
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Whether a drive lacks a file, so that the pool cannot be opened.
    pub(super) fn lacks_files(&self) -> bool {
        self.findings.iter().any(|finding| finding.code == FILE_MISSING)
    }

    /// One object.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a report is plain JSON");
        text.push('\n');
        text
    }

    /// A line a finding, a line a shard, and a verdict.
    pub fn to_text(&self) -> String {
        let mut text: String = self.findings.iter().map(|finding| format!("{finding}\n")).collect();
        let listed = self.errors + self.warnings + self.notes;
        let left_out = listed - self.findings.len() as u64;
        if left_out > 0 {
            text.push_str(&format!("… and {} more\n", counted(left_out, "finding")));
        }
        if let Some(objects) = &self.objects {
            let ObjectSummary { data_objects, meta_objects, segments, .. } = objects;
            let ObjectSummary { unused, unknown, missing, .. } = objects;
            text.push_str(&format!(
                "{} of data, {meta_objects} of metadata: {segments} segments, {unused} unused, {unknown} unknown, {missing} missing\n",
                counted(*data_objects, "object")
            ));
        }
        for shard in &self.shards {
            text.push_str(&format!("{shard}\n"));
        }
        let scope = match (self.stopped, self.quick) {
            (true, _) => ", stopped before everything was checked",
            (false, true) => ", data not verified (--quick)",
            (false, false) => "",
        };
        let verdict = match self.errors {
            0 => "clean",
            _ if self.lacks_files() => "incomplete",
            _ => "damaged",
        };
        let name =
            self.pool.as_deref().map_or_else(|| "pool".to_owned(), |id| format!("pool {id}"));
        text.push_str(&format!(
            "{name}: {verdict}: {}, {}, {}{scope}\n",
            counted(self.errors, "error"),
            counted(self.warnings, "warning"),
            counted(self.notes, "note"),
        ));
        text
    }
}

/// An amount in words.
pub fn counted(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}
