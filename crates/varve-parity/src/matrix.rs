//! Matrices over the field: the parity of each kind of code, and how strips follow from others.

use crate::field::{double, invert, multiply};
use crate::shape::{CodeKind, CodeShape};

/// Factors of the sources of one output.
pub(crate) type FactorRow = Vec<u8>;

/// How parity strips follow from data strips: a row for each of them.
pub(crate) fn parity_rows(shape: CodeShape, kind: CodeKind) -> Vec<FactorRow> {
    let row = |parity: usize| -> FactorRow {
        match kind {
            CodeKind::Copies | CodeKind::Xor => vec![1; shape.data()],
            CodeKind::PowersOfTwo => powers(if parity == 0 { 1 } else { 2 }, shape.data()),
            CodeKind::Cauchy => {
                let own = index(shape.data() + parity);
                (0..shape.data()).map(|data| invert(own ^ index(data))).collect()
            }
        }
    };
    (0..shape.parity()).map(row).collect()
}

/// The row of a data strip among data strips.
pub(crate) fn unit_row(at: usize, len: usize) -> FactorRow {
    (0..len).map(|other| u8::from(other == at)).collect()
}

/// The row that takes sources to what `row` takes their products by `rows` to.
pub(crate) fn combine(row: &[u8], rows: &[FactorRow]) -> FactorRow {
    let mut sums = vec![0; rows.first().map_or(0, Vec::len)];
    for (factor, row) in row.iter().zip(rows) {
        add(&mut sums, row, *factor);
    }
    sums
}

/// The inverse of a square matrix, by Gauss and Jordan; `None` when there is none.
pub(crate) fn inverse(mut rows: Vec<FactorRow>) -> Option<Vec<FactorRow>> {
    let len = rows.len();
    let mut inverse: Vec<FactorRow> = (0..len).map(|at| unit_row(at, len)).collect();
    for at in 0..len {
        let pivot = (at..len).find(|row| rows[*row][at] != 0)?;
        rows.swap(at, pivot);
        inverse.swap(at, pivot);
        let factor = invert(rows[at][at]);
        scale(&mut rows[at], factor);
        scale(&mut inverse[at], factor);
        let (row, inverse_row) = (rows[at].clone(), inverse[at].clone());
        for other in (0..len).filter(|other| *other != at) {
            let factor = rows[other][at];
            add(&mut rows[other], &row, factor);
            add(&mut inverse[other], &inverse_row, factor);
        }
    }
    Some(inverse)
}

fn scale(row: &mut [u8], factor: u8) {
    row.iter_mut().for_each(|element| *element = multiply(*element, factor));
}

/// Adds a row times a factor.
fn add(sums: &mut [u8], row: &[u8], factor: u8) {
    for (sum, element) in sums.iter_mut().zip(row) {
        *sum ^= multiply(*element, factor);
    }
}

/// Powers of 1 or 2, from the zeroth.
fn powers(base: u8, count: usize) -> FactorRow {
    let next = |power: &u8| Some(if base == 1 { 1 } else { double(*power) });
    std::iter::successors(Some(1), next).take(count).collect()
}

fn index(strip: usize) -> u8 {
    u8::try_from(strip).expect("indexes are below STRIPS_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(rows: &[FactorRow]) -> String {
        rows.concat().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// As `gf_gen_cauchy1_matrix` of ISA-L 2.30 makes them.
    #[test]
    fn cauchy_matrices_are_those_of_isa_l() {
        for (data, parity, expected) in [
            (4, 2, "47a77abaa747ba7a"),
            (8, 3, "ad9ddd983daa5d969dad98ddaa3d965ddd98ad9d5d963daa"),
            (
                10,
                4,
                "dd98ad9d5d963daa8ef498dd9dad965daa3df48e3daa5d96ad9ddd9847a7aa3d965d9dad98dda747",
            ),
        ] {
            let shape = CodeShape::new(data, parity).unwrap();
            assert_eq!(hex(&parity_rows(shape, CodeKind::Cauchy)), expected, "{shape}");
        }
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_unit_matrix() {
        let shape = CodeShape::new(8, 8).unwrap();
        let rows = parity_rows(shape, CodeKind::Cauchy);
        let inverse = inverse(rows.clone()).unwrap();
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(combine(row, &inverse), unit_row(at, 8));
        }
    }

    #[test]
    fn rows_that_follow_from_each_other_have_no_inverse() {
        assert_eq!(inverse(vec![vec![1, 2], vec![2, 4]]), None);
        assert_eq!(inverse(vec![vec![0, 1], vec![1, 0]]), Some(vec![vec![0, 1], vec![1, 0]]));
    }
}
