//! Any k strips give all others, whichever are lost.

use varve_parity::{CodeKind, CodeShape, Error, Kernel, STRIPS_MAX};
use varve_stdx::Rng;

use crate::stripe::{Stripe, code};

/// Indexes of the bits that are set, and of those that are not.
fn halves(set: u32, strips: usize) -> (Vec<usize>, Vec<usize>) {
    (0..strips).partition(|strip| set >> strip & 1 == 1)
}

#[test]
fn every_loss_of_up_to_8_strips_is_rebuilt() {
    let mut rng = Rng::new(1);
    for (data, parity) in (1..8).flat_map(|data| (1..=8 - data).map(move |parity| (data, parity))) {
        let code = code(data, parity);
        let stripe = Stripe::encoded(&code, 331, &mut rng);
        for set in 0..1 << (data + parity) {
            let (lost, present) = halves(set, data + parity);
            if lost.len() > parity {
                let needed = data;
                let error = Error::TooFewStrips { present: present.len(), needed };
                assert_eq!(code.plan(&present, &lost).unwrap_err(), error);
                continue;
            }
            for kernel in Kernel::available() {
                let made = stripe.rebuilt(&code.clone().with_kernel(kernel), &present, &lost);
                for (lost, made) in lost.iter().zip(&made) {
                    assert!(*made == stripe.strips[*lost], "{kernel}, {data}+{parity}, {set:b}");
                }
            }
        }
    }
}

#[test]
fn losses_of_wide_codes_are_rebuilt() {
    let mut rng = Rng::new(2);
    for (data, parity) in [(8, 3), (10, 4), (12, 4), (17, 3), (28, 4), (16, 16)] {
        let code = code(data, parity);
        let stripe = Stripe::encoded(&code, 1025, &mut rng);
        for _ in 0..200 {
            // Any order: plans take strips as they are named.
            let mut strips: Vec<usize> = (0..data + parity).collect();
            for at in (1..strips.len()).rev() {
                strips.swap(at, rng.index(at + 1));
            }
            let (lost, present) = strips.split_at(1 + rng.index(parity));
            let made = stripe.rebuilt(&code, present, lost);
            for (lost, made) in lost.iter().zip(&made) {
                assert!(*made == stripe.strips[*lost], "{data}+{parity}, {strips:?}");
            }
        }
    }
}

#[test]
fn strips_of_segments_that_are_not_full_are_rebuilt() {
    let mut rng = Rng::new(3);
    let code = code(4, 2);
    for used in [1, 4096, 5000, 16_384, 20_480, 40_000] {
        // Strips of 16 KiB, of which the segment fills a part.
        let lens: Vec<usize> =
            (0..4).map(|at| (used - (used.min(at * 16_384))).min(16_384)).collect();
        let stripe = Stripe::of_lens(&code, &lens, &mut rng);
        for set in (0_u32..64).filter(|set| set.count_ones() <= 2) {
            let (lost, present) = halves(set, 6);
            let made = stripe.rebuilt(&code, &present, &lost);
            assert!(lost.iter().zip(&made).all(|(lost, made)| *made == stripe.strips[*lost]));
        }
    }
}

#[test]
fn a_flipped_bit_of_parity_or_data_is_found() {
    let mut rng = Rng::new(4);
    let code = code(4, 2);
    let mut stripe = Stripe::encoded(&code, 200_000, &mut rng);
    assert!(code.verify(&stripe.data(), &stripe.parity()).is_empty());
    for (strip, at, expected) in
        [(4, 0, vec![0]), (5, 65_536, vec![1]), (5, 199_999, vec![1]), (2, 131_071, vec![0, 1])]
    {
        stripe.strips[strip][at] ^= 0x10;
        assert_eq!(code.verify(&stripe.data(), &stripe.parity()), expected);
        stripe.strips[strip][at] ^= 0x10;
    }
}

#[test]
fn choices_that_make_no_sense_are_refused() {
    let code = code(4, 2);
    let error = code.plan(&[0, 1, 2, 6], &[3]).unwrap_err();
    assert_eq!(error, Error::NoSuchStrip { strip: 6, strips: 6 });
    let error = code.plan(&[0, 1, 2, 1], &[3]).unwrap_err();
    assert_eq!(error, Error::StripTwice { strip: 1 });
    assert_eq!(code.plan(&[0, 1, 2, 4], &[3, 3]).unwrap_err(), Error::StripTwice { strip: 3 });
    for (data, parity) in [(0, 1), (1, 0), (STRIPS_MAX, 1), (usize::MAX, 1)] {
        assert_eq!(CodeShape::new(data, parity), Err(Error::Shape { data, parity }));
    }
}

#[test]
fn the_shape_decides_the_code() {
    let kind = |data, parity| CodeShape::new(data, parity).unwrap().kind();
    assert_eq!((kind(1, 1), kind(1, 3)), (CodeKind::Copies, CodeKind::Copies));
    assert_eq!((kind(2, 1), kind(4, 2)), (CodeKind::Xor, CodeKind::PowersOfTwo));
    assert_eq!((kind(8, 3), kind(2, 4)), (CodeKind::Cauchy, CodeKind::Cauchy));
}
