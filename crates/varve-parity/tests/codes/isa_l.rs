//! Parity is byte for byte that of ISA-L: as recorded from its version 2.30, as another implementation of it computes,
//! and as the library of the system does where there is one.

use rusty_erasure::Matrix;
use varve_parity::{CodeKind, ErasureCode, IsaL, Kernel};
use varve_stdx::Rng;

use crate::stripe::{Stripe, code};

/// Bytes that the vectors were recorded from.
fn recorded(data: usize) -> Vec<Vec<u8>> {
    let byte = |strip: usize, at: usize| {
        u8::try_from(((strip + 1) * 31 + at * 7 + at / 8 * strip * 11 + 1) & 255).unwrap()
    };
    (0..data).map(|strip| (0..32).map(|at| byte(strip, at)).collect()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `ec_encode_data` with `gf_gen_cauchy1_matrix`, `pq_gen` and `xor_gen` of ISA-L 2.30.
#[rustfmt::skip]
const RECORDED: [(usize, usize, &[&str]); 5] = [
    (3, 1, &["41040f121da0abae76654c3b2211f8e7af5a45705b46711c888f969da4abb2b9"]),
    (4, 2, &[
        "3c80848084000c00a0b8a8d0d0e8f8e0806c78341014287c0000000000000000",
        "f47635a8c3d0d3ae3500fa7691acb899adbbf02a49a01bbbd1fc7b12683dbad3",
    ]),
    (4, 3, &[
        "df9540c869513dde245c7ec59316abb9a3a0a3fa270af24f99797e03708d8af7",
        "c8bd0fe0a605408ad7e02ab1dd612b5145094b3fee1eeb7bbc5c5b2655a8afd2",
        "721bbac61334c41c6e14b519754f6e59449f252034d7b78654b4b3cebd40473a",
    ]),
    (8, 3, &[
        "7304f6c40336d63179d0c6619043db1abbde72349e21dfbd895680ae31bb6d43",
        "13b6027689b5f4515317575032cee69cf3a4be5b9f43043722fd2b059a10c6e8",
        "a115fe027585e3e0e198097645003d8a56f8b49fd5743c94b06fb9970882547a",
    ]),
    (10, 4, &[
        "4b7525555e201699fbfdf9fb7db800699a45be4973a78baf27832b7c6660c89f",
        "727f08b4f8e86a782f602cd0f74b1ab3bb25f7be65112cdcac08a0f7edeb4314",
        "b7082f5cd6afbcb0299b8c051ec695bf9bd6c7453722ff5aeaaf6c2cf7b47737",
        "e50b11fd64edf661c0b9f0bf8967c082edcf1e313372c8bcbaff3c7ca7e42767",
    ]),
];

#[test]
fn parity_is_what_isa_l_was_recorded_with() {
    for (data, parity, expected) in RECORDED {
        let strips = recorded(data);
        let sources: Vec<&[u8]> = strips.iter().map(Vec::as_slice).collect();
        for kernel in Kernel::available() {
            let mut made = vec![vec![0; 32]; parity];
            let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
            code(data, parity).with_kernel(kernel).encode(&sources, &mut outputs);
            let made: Vec<String> = made.iter().map(|strip| hex(strip)).collect();
            assert_eq!(made, expected, "{kernel}, {data}+{parity}");
        }
    }
}

#[test]
fn another_implementation_computes_the_same_parity() {
    let mut rng = Rng::new(1);
    for (data, parity) in [(2, 1), (3, 1), (4, 2), (8, 2), (2, 3), (8, 3), (4, 4), (10, 4), (12, 4)]
    {
        let code = code(data, parity);
        let stripe = Stripe::encoded(&code, 5000, &mut rng);
        let matrix = match code.shape().kind() {
            CodeKind::Cauchy => Matrix::cauchy(data, parity),
            CodeKind::Copies | CodeKind::Xor | CodeKind::PowersOfTwo => {
                Matrix::reed_solomon(data, parity)
            }
        };
        let matrix = matrix.unwrap();
        assert_eq!(code.product().rows().concat(), matrix.parity_bytes());
        let mut judged = vec![vec![0; 5000]; parity];
        let mut outputs: Vec<&mut [u8]> = judged.iter_mut().map(Vec::as_mut_slice).collect();
        rusty_erasure::coder(matrix).unwrap().encode(&stripe.data(), &mut outputs).unwrap();
        assert!(judged == stripe.parity(), "{data}+{parity}");
    }
}

/// What ISA-L makes of the data strips.
fn made_by(library: &IsaL, code: &ErasureCode, stripe: &Stripe, len: usize) -> Vec<Vec<u8>> {
    let mut made = vec![vec![0; len]; code.shape().parity()];
    let mut outputs: Vec<&mut [u8]> = made.iter_mut().map(Vec::as_mut_slice).collect();
    library.compute(&library.prepare(code.product()), &stripe.data(), &mut outputs);
    made
}

#[test]
fn the_library_of_the_system_computes_the_same_or_is_named_as_missing() {
    let library = match IsaL::load() {
        Ok(library) => library,
        Err(reason) => return assert!(reason.contains("libisal.so.2"), "{reason}"),
    };
    assert!(library.path().unwrap().contains("libisal.so.2"));
    let mut rng = Rng::new(1);
    for (data, parity) in [(1, 2), (2, 1), (3, 1), (4, 2), (8, 3), (10, 4), (12, 4), (17, 3)] {
        let code = code(data, parity);
        for len in [64, 100, 4096, 70_001] {
            let stripe = Stripe::encoded(&code, len, &mut rng);
            let made = made_by(&library, &code, &stripe, len);
            assert!(made == stripe.parity(), "{data}+{parity}, {len}");
        }
    }
}
