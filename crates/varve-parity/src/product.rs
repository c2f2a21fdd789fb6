//! Strips as sums of other strips, each times a factor: what encoding and decoding both are.
//!
//! 1. PRODUCT-1: behind its end a source counts as zeros, and nothing is written behind the end of an output. So strips
//!    of a segment that is not full take part as they are.

use crate::kernel::{Kernel, Sum};
use crate::matrix::FactorRow;

/// How outputs follow from sources: a row of factors for each output.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    rows: Vec<FactorRow>,
}

impl Product {
    pub(crate) fn new(rows: Vec<FactorRow>) -> Self {
        Self { rows }
    }

    /// Factors of each output's sources.
    #[must_use]
    pub fn rows(&self) -> &[Vec<u8>] {
        &self.rows
    }

    /// Computes the outputs. Sources and outputs may have different lengths; sources end with zeros.
    pub(crate) fn apply(&self, kernel: Kernel, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        assert!(
            outputs.len() == self.rows.len()
                && self.rows.iter().all(|row| row.len() == sources.len()),
            "as many strips as the product has"
        );
        let mut from = 0;
        while let Some(until) = next_end(from, sources, outputs) {
            self.apply_to_range(kernel, from..until, sources, outputs);
            from = until;
        }
    }

    /// Computes a range of the outputs in which no strip ends.
    fn apply_to_range(
        &self,
        kernel: Kernel,
        range: std::ops::Range<usize>,
        sources: &[&[u8]],
        outputs: &mut [&mut [u8]],
    ) {
        // PRODUCT-1
        let has_range = |source: &&[u8]| source.len() >= range.end;
        let parts: Vec<&[u8]> =
            sources.iter().filter(|source| has_range(source)).map(|s| &s[range.clone()]).collect();
        let mut sums: Vec<Sum<'_>> = Vec::with_capacity(outputs.len());
        for (output, row) in outputs.iter_mut().zip(&self.rows) {
            let Some(output) = output.get_mut(range.clone()) else { continue };
            let factors = row.iter().zip(sources).filter(|(_, source)| has_range(source));
            sums.push(Sum { output, factors: factors.map(|(factor, _)| *factor).collect() });
        }
        kernel.compute(&parts, &mut sums);
    }
}

/// The nearest end of a strip behind `from`; none when no output goes on.
fn next_end(from: usize, sources: &[&[u8]], outputs: &[&mut [u8]]) -> Option<usize> {
    let output_ends = outputs.iter().map(|output| output.len()).filter(|end| *end > from);
    let nearest = output_ends.min()?;
    let source_ends = sources.iter().map(|source| source.len()).filter(|end| *end > from);
    Some(source_ends.fold(nearest, usize::min))
}
