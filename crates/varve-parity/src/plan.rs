//! How strips follow from k others: computed once for a choice of strips, used for as many stripes as there are.

use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::matrix::{FactorRow, combine, inverse, unit_row};
use crate::product::Product;
use crate::shape::CodeShape;

/// What to read, and what to make of it.
#[derive(Clone, Debug)]
pub struct RebuildPlan {
    sources: Vec<usize>,
    outputs: Vec<usize>,
    kernel: Kernel,
    product: Product,
}

impl RebuildPlan {
    pub(crate) fn new(
        shape: CodeShape,
        kernel: Kernel,
        parity_rows: &[FactorRow],
        present: &[usize],
        wanted: &[usize],
    ) -> Result<Self> {
        check(shape, present)?;
        check(shape, wanted)?;
        let Some(sources) = present.get(..shape.data()) else {
            return Err(Error::TooFewStrips { present: present.len(), needed: shape.data() });
        };
        // How each strip follows from data.
        let row = |strip: &usize| match strip.checked_sub(shape.data()) {
            None => unit_row(*strip, shape.data()),
            Some(parity) => parity_rows[parity].clone(),
        };
        let data_from_sources = inverse(sources.iter().map(row).collect())
            .expect("any k rows of these codes are independent");
        let rows = wanted.iter().map(|strip| combine(&row(strip), &data_from_sources));
        let product = Product::new(rows.collect());
        Ok(Self { sources: sources.to_vec(), outputs: wanted.to_vec(), kernel, product })
    }

    /// Indexes of the k strips that are read.
    #[must_use]
    pub fn sources(&self) -> &[usize] {
        &self.sources
    }

    /// Indexes of the strips that are made.
    #[must_use]
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// How these follow from those.
    #[must_use]
    pub fn product(&self) -> &Product {
        &self.product
    }

    /// Computes the strips wanted, in the order of [`outputs`](Self::outputs), from strips in the order of
    /// [`sources`](Self::sources). Strips may be the same part of each strip instead of all of it. A source that ends
    /// early counts as if zeros followed, and a strip wanted may be shorter than the others.
    ///
    /// # Panics
    /// When there are not as many strips as the plan has.
    pub fn rebuild(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        self.product.apply(self.kernel, sources, outputs);
    }
}

/// That strips exist, each once.
fn check(shape: CodeShape, chosen: &[usize]) -> Result<()> {
    for (at, strip) in chosen.iter().enumerate() {
        if *strip >= shape.strips() {
            return Err(Error::NoSuchStrip { strip: *strip, strips: shape.strips() });
        }
        if chosen[..at].contains(strip) {
            return Err(Error::StripTwice { strip: *strip });
        }
    }
    Ok(())
}
