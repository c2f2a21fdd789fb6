//! The code of a shape: parity from data, whether parity fits, and plans for strips that are lost.

use crate::error::Result;
use crate::kernel::Kernel;
use crate::matrix::parity_rows;
use crate::plan::RebuildPlan;
use crate::product::Product;
use crate::shape::CodeShape;

/// Bytes of parity that are computed at a time to compare them: what fits into the caches beside the data.
const VERIFY_BYTES: usize = 64 << 10;

/// The code of a shape, computed by one kernel.
#[derive(Clone, Debug)]
pub struct ErasureCode {
    shape: CodeShape,
    kernel: Kernel,
    parity: Product,
}

impl ErasureCode {
    /// The code of `shape`, with the fastest kernel of this processor.
    #[must_use]
    pub fn new(shape: CodeShape) -> Self {
        let parity = Product::new(parity_rows(shape, shape.kind()));
        Self { shape, kernel: Kernel::fastest(), parity }
    }

    /// The same code, computed by `kernel`, which this processor must have.
    #[must_use]
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> CodeShape {
        self.shape
    }

    /// How parity follows from data.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.parity
    }

    /// Computes the parity of `data`. A data strip may be shorter than parity; it counts as if zeros followed.
    ///
    /// # Panics
    /// When there are not as many strips as the shape has, parity strips differ in length, or a data strip is longer
    /// than they are.
    pub fn encode(&self, data: &[&[u8]], parity: &mut [&mut [u8]]) {
        let lens: Vec<usize> = parity.iter().map(|strip| strip.len()).collect();
        self.check(data, &lens);
        self.parity.apply(self.kernel, data, parity);
    }

    /// Parity strips that do not fit the data, counted from 0; none when all do.
    ///
    /// # Panics
    /// As [`encode`](Self::encode).
    #[must_use]
    pub fn verify(&self, data: &[&[u8]], parity: &[&[u8]]) -> Vec<usize> {
        let lens: Vec<usize> = parity.iter().map(|strip| strip.len()).collect();
        self.check(data, &lens);
        let len = lens[0];
        let mut scratch = vec![vec![0; len.min(VERIFY_BYTES)]; parity.len()];
        let mut wrong = vec![false; parity.len()];
        for from in (0..len).step_by(VERIFY_BYTES) {
            let until = len.min(from + VERIFY_BYTES);
            let part = |strip: &&'_ [u8]| from.min(strip.len())..until.min(strip.len());
            let sources: Vec<&[u8]> = data.iter().map(|strip| &strip[part(strip)]).collect();
            let mut outputs: Vec<&mut [u8]> =
                scratch.iter_mut().map(|strip| &mut strip[..until - from]).collect();
            self.parity.apply(self.kernel, &sources, &mut outputs);
            for ((computed, stored), wrong) in outputs.iter().zip(parity).zip(&mut wrong) {
                *wrong |= **computed != stored[from..until];
            }
        }
        let wrong = wrong.iter().enumerate().filter(|(_, wrong)| **wrong);
        wrong.map(|(strip, _)| strip).collect()
    }

    /// How the strips `wanted` follow from strips that are `present`: the first k of them, in this order. Data strips
    /// have the indexes 0 to k - 1, parity strips those from k.
    ///
    /// # Errors
    /// When fewer than k strips are present, a strip is named twice, or one that there is not.
    pub fn plan(&self, present: &[usize], wanted: &[usize]) -> Result<RebuildPlan> {
        RebuildPlan::new(self.shape, self.kernel, self.parity.rows(), present, wanted)
    }

    fn check(&self, data: &[&[u8]], parity_lens: &[usize]) {
        let shape = self.shape;
        assert!(
            data.len() == shape.data() && parity_lens.len() == shape.parity(),
            "{}+{} strips for a code of {shape}",
            data.len(),
            parity_lens.len()
        );
        let len = parity_lens[0];
        assert!(parity_lens.iter().all(|other| *other == len), "parity strips are equally long");
        assert!(data.iter().all(|strip| strip.len() <= len), "parity covers all data");
    }
}
