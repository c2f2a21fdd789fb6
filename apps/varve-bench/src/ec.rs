//! Rates of erasure codes as they are printed.

use serde::Serialize;
use varve_client::table::{Align, columns, labelled};
use varve_client::{Failure, Result};
use varve_tool_bench::{ParityRate, ParityReport, ParitySpec, RateSpread};
use varve_types::ByteCount;

use super::system::System;

/// Columns of rates.
const HEADER: [(&str, Align); 8] = [
    ("INSTRUCTIONS", Align::Left),
    ("ENCODE GB/s", Align::Right),
    ("MIN", Align::Right),
    ("MAX", Align::Right),
    ("REBUILD GB/s", Align::Right),
    ("MIN", Align::Right),
    ("MAX", Align::Right),
    ("", Align::Left),
];

/// What was measured. Fields are added over time, never renamed.
#[derive(Serialize, Debug)]
pub struct EcReport {
    data_strips: usize,
    parity_strips: usize,
    strip_bytes: usize,
    lost_strips: usize,
    /// CPU time of each kind of instructions, to encode and to rebuild, in ms.
    duration_ms: u64,
    system: System,
    #[serde(flatten)]
    measured: ParityReport,
}

impl EcReport {
    /// Measures encoding and rebuilding.
    ///
    /// # Errors
    /// A shape that codes do not have.
    pub fn measure(spec: &ParitySpec) -> Result<Self> {
        let system = System::now();
        let measured = spec.measure().map_err(|error| Failure::misuse(error.to_string()))?;
        Ok(Self {
            data_strips: spec.data,
            parity_strips: spec.parity,
            strip_bytes: spec.strip_bytes,
            lost_strips: spec.lost,
            duration_ms: u64::try_from(spec.time.as_millis()).unwrap_or(u64::MAX),
            system,
            measured,
        })
    }

    /// Rounds with wrong strips, of all kinds of instructions.
    pub fn wrong_rounds(&self) -> u32 {
        self.measured.rates.iter().map(|rate| rate.wrong_rounds).sum()
    }

    /// For people.
    pub fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.measured.rates.iter().map(row).collect();
        format!("{}\n{}", labelled(&self.facts()), columns(&HEADER, &rows))
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let Self { data_strips, parity_strips, strip_bytes, lost_strips, .. } = self;
        let strip = ByteCount(*strip_bytes as u64);
        let missing = || self.measured.isa_l_missing.clone().unwrap_or_default();
        let library = self.measured.isa_l.clone();
        let mut facts = vec![
            ("code", format!("{data_strips}+{parity_strips}, {}", self.measured.code)),
            ("strips", format!("{strip} each, {lost_strips} rebuilt")),
            ("rates", "data a second of CPU time, median of nine rounds".to_owned()),
            ("ISA-L", library.unwrap_or_else(|| format!("not compared: {}", missing()))),
        ];
        facts.extend(self.system.facts());
        facts
    }
}

fn row(rate: &ParityRate) -> Vec<String> {
    let cells = |spread: Option<RateSpread>| match spread {
        Some(RateSpread { median, min, max }) => [median, min, max].map(gigabytes),
        None => [const { String::new() }; 3],
    };
    let wrong = match rate.wrong_rounds {
        0 => String::new(),
        rounds => format!("WRONG in {rounds} rounds"),
    };
    let name = std::iter::once(rate.contender.clone());
    let rates = cells(Some(rate.encode)).into_iter().chain(cells(rate.decode));
    name.chain(rates).chain([wrong]).collect()
}

fn gigabytes(bytes: f64) -> String {
    format!("{:.2}", bytes / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_rounds_stand_in_their_row() {
        let encode = RateSpread { median: 45.678e9, min: 1e9, max: 50e9 };
        let contender = "isa-l-raid".to_owned();
        let rate = ParityRate { contender, encode, decode: None, wrong_rounds: 2 };
        assert_eq!(row(&rate).join("|"), "isa-l-raid|45.68|1.00|50.00||||WRONG in 2 rounds");
    }
}
