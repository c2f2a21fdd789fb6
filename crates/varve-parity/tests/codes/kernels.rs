//! Every kernel computes the bytes of the scalar one.

use varve_parity::{ErasureCode, Kernel};
use varve_stdx::Rng;

use crate::stripe::{Stripe, code, slices};

const SHAPES: [(usize, usize); 13] = [
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 1),
    (4, 1),
    (2, 2),
    (4, 2),
    (8, 2),
    (4, 3),
    (8, 3),
    (10, 4),
    (12, 4),
    (5, 7),
];

const LENS: [usize; 22] = [
    0, 1, 2, 15, 16, 31, 32, 33, 63, 64, 65, 127, 255, 256, 257, 511, 1000, 4095, 4096, 4097,
    70_001, 131_072,
];

fn parity_of(code: &ErasureCode, data: &[&[u8]], len: usize) -> Vec<Vec<u8>> {
    let mut parity = vec![vec![0x5a; len]; code.shape().parity()];
    code.encode(data, &mut parity.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
    parity
}

#[test]
fn all_kernels_compute_the_same_bytes_at_any_length_and_alignment() {
    let mut rng = Rng::new(1);
    for (data, parity) in SHAPES {
        let scalar = code(data, parity).with_kernel(Kernel::Scalar);
        for len in LENS {
            let stripe = Stripe::encoded(&scalar, len, &mut rng);
            for (kernel, skipped) in Kernel::available().into_iter().zip([0, 1, 7, 3]) {
                let skipped = skipped.min(len);
                let sources: Vec<&[u8]> =
                    stripe.data().iter().map(|strip| &strip[skipped..]).collect();
                let made = parity_of(&scalar.clone().with_kernel(kernel), &sources, len - skipped);
                for (made, expected) in made.iter().zip(stripe.parity()) {
                    assert!(made[..] == expected[skipped..], "{kernel}, {data}+{parity}, {len}");
                }
            }
        }
    }
}

#[test]
fn the_scalar_kernel_computes_sums_of_products() {
    let mut rng = Rng::new(2);
    for (data, parity) in SHAPES {
        let code = code(data, parity).with_kernel(Kernel::Scalar);
        let stripe = Stripe::encoded(&code, 99, &mut rng);
        for (row, parity) in code.product().rows().iter().zip(stripe.parity()) {
            for (at, sum) in parity.iter().enumerate() {
                let terms = row
                    .iter()
                    .zip(stripe.data())
                    .map(|(factor, strip)| rusty_erasure::gf::mul(*factor, strip[at]));
                assert_eq!(*sum, terms.fold(0, |sum, term| sum ^ term));
            }
        }
    }
}

#[test]
fn strips_that_end_early_count_as_if_zeros_followed() {
    let mut rng = Rng::new(3);
    for round in 0..200 {
        let (data, parity) = SHAPES[round % SHAPES.len()];
        let code = code(data, parity);
        let lens: Vec<usize> = (0..data).map(|_| rng.index(3000)).collect();
        let longest = *lens.iter().max().unwrap();
        let stripe = Stripe::of_lens(&code, &lens, &mut rng);
        let mut whole: Vec<Vec<u8>> = stripe.data().iter().map(|strip| strip.to_vec()).collect();
        whole.iter_mut().for_each(|strip| strip.resize(longest, 0));
        for kernel in Kernel::available() {
            let code = code.clone().with_kernel(kernel);
            for data in [stripe.data(), slices(&whole)] {
                let made = parity_of(&code, &data, longest);
                assert!(slices(&made) == stripe.parity(), "{kernel}, {lens:?}");
                assert!(code.verify(&data, &stripe.parity()).is_empty());
            }
        }
    }
}

#[test]
fn the_fastest_kernel_is_available() {
    let available = Kernel::available();
    assert_eq!(
        (available.first(), available.last()),
        (Some(&Kernel::Scalar), Some(&Kernel::fastest()))
    );
}
