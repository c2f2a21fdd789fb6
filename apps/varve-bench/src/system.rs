//! Facts of the machine that makes a load, without which its figures say little.

use std::fs;

use serde::{Deserialize, Serialize};
use varve_client::age::now_unix_ms;
use varve_types::ByteCount;

/// The machine, and what was run on it when. Fields are added over time, never renamed.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct System {
    /// What measured, where that was not this program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tool: Option<String>,
    /// Version of this program.
    version: String,
    /// Whether it was built without optimisation; then its figures are its own.
    debug_build: bool,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// When the facts were looked at, in ms since 1970.
    pub(crate) unix_ms: u64,
    kernel: String,
    processor: String,
    processors: usize,
    memory_bytes: u64,
    /// What the kernel drew when the machine was started: it tells it from others, whatever their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) boot_id: Option<String>,
}

impl System {
    /// Of this machine, now. What cannot be read is left empty.
    pub fn now() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, label: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(label));
            let value = line.map(|line| line.trim_start_matches([':', ' ', '\t']));
            value.unwrap_or_default().to_owned()
        };
        let memory = field(&text("/proc/meminfo"), "MemTotal");
        let memory_kib = memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        Self {
            tool: None,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            debug_build: cfg!(debug_assertions),
            command: without_keys(std::env::args().skip(1)),
            unix_ms: now_unix_ms(),
            kernel: text("/proc/sys/kernel/osrelease").trim_end().to_owned(),
            processor: field(&text("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: memory_kib * 1024,
            boot_id: Some(text("/proc/sys/kernel/random/boot_id").trim_end().to_owned())
                .filter(|id| !id.is_empty()),
        }
    }

    /// Of a machine of which only is known what measured on it, and when it ended.
    pub(crate) fn of_tool(tool: String, unix_ms: u64) -> Self {
        Self {
            tool: Some(tool),
            version: String::new(),
            debug_build: false,
            command: Vec::new(),
            unix_ms,
            kernel: String::new(),
            processor: String::new(),
            processors: 0,
            memory_bytes: 0,
            boot_id: None,
        }
    }

    /// Of this machine, on which something else measured.
    pub fn measured_by(self, tool: String) -> Self {
        Self { tool: Some(tool), ..self }
    }

    /// For people.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts: Vec<_> =
            self.tool.iter().map(|tool| ("measured by", tool.clone())).collect();
        if self.version.is_empty() {
            return facts;
        }
        let build = if self.debug_build { ", not optimised" } else { "" };
        let memory = ByteCount(self.memory_bytes);
        let Self { version, kernel, processor, processors, .. } = self;
        facts.extend([
            ("command", format!("varve {}", self.command.join(" "))),
            ("client", format!("varve {version}{build}, {processors} × {processor}, {memory}")),
            ("kernel", kernel.clone()),
        ]);
        facts
    }
}

/// A command line without access keys: results are shown to others.
fn without_keys(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const KEY: &str = "--access-key";
    let mut is_key = false;
    let shown = arguments.map(|argument| {
        if std::mem::replace(&mut is_key, argument == KEY) {
            return "…".to_owned();
        }
        match argument.strip_prefix(KEY).filter(|rest| rest.starts_with('=')) {
            Some(_) => format!("{KEY}=…"),
            None => argument,
        }
    });
    shown.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stay_out_of_results() {
        let line = "bench cosbench w.xml --access-key AKIA1 --secret-file f --access-key=AKIA2";
        let shown = without_keys(line.split(' ').map(str::to_owned)).join(" ");
        assert_eq!(shown, "bench cosbench w.xml --access-key … --secret-file f --access-key=…");
    }
}
