//! Strips with random data, and their parity.

use varve_parity::{CodeShape, ErasureCode};
use varve_stdx::Rng;

/// All strips of a stripe, data first.
pub(crate) struct Stripe {
    pub(crate) strips: Vec<Vec<u8>>,
    data: usize,
}

impl Stripe {
    /// Strips of one length, with the parity that `code` gives them.
    pub(crate) fn encoded(code: &ErasureCode, len: usize, rng: &mut Rng) -> Self {
        Self::of_lens(code, &vec![len; code.shape().data()], rng)
    }

    /// Data strips of these lengths, with parity as long as the longest.
    pub(crate) fn of_lens(code: &ErasureCode, lens: &[usize], rng: &mut Rng) -> Self {
        let mut strips: Vec<Vec<u8>> = lens.iter().map(|len| random(*len, rng)).collect();
        let longest = lens.iter().max().copied().unwrap_or(0);
        strips.extend((0..code.shape().parity()).map(|_| random(longest, rng)));
        let mut stripe = Self { strips, data: lens.len() };
        let (data, parity) = stripe.strips.split_at_mut(lens.len());
        code.encode(
            &slices(data),
            &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>(),
        );
        stripe
    }

    pub(crate) fn data(&self) -> Vec<&[u8]> {
        slices(&self.strips[..self.data])
    }

    pub(crate) fn parity(&self) -> Vec<&[u8]> {
        slices(&self.strips[self.data..])
    }

    /// The strips `wanted` as they follow from those `present`.
    pub(crate) fn rebuilt(
        &self,
        code: &ErasureCode,
        present: &[usize],
        wanted: &[usize],
    ) -> Vec<Vec<u8>> {
        let plan = code.plan(present, wanted).unwrap();
        let sources: Vec<&[u8]> = plan.sources().iter().map(|at| &*self.strips[*at]).collect();
        let mut made: Vec<Vec<u8>> =
            wanted.iter().map(|at| vec![0xa5; self.strips[*at].len()]).collect();
        plan.rebuild(&sources, &mut made.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        made
    }
}

pub(crate) fn code(data: usize, parity: usize) -> ErasureCode {
    ErasureCode::new(CodeShape::new(data, parity).unwrap())
}

pub(crate) fn slices(strips: &[Vec<u8>]) -> Vec<&[u8]> {
    strips.iter().map(Vec::as_slice).collect()
}

fn random(len: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}
