//! Shares, duplicates and bytes of blocks against their specification.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const MIXED: DataSpec = DataSpec {
    seed: 7,
    volume: 0,
    block_bytes: 512,
    zero_percent: 10,
    duplicate_percent: 30,
    stock_blocks: 500,
    stock_pick: StockPick::Uniform,
    compression_ratio: 2.0,
};

fn bytes(spec: &DataSpec, index: u64, version: u64) -> Vec<u8> {
    let mut out = vec![0xA5; spec.block_bytes];
    spec.block(index, version, &mut out);
    out
}

/// Counts by bytes alone.
fn measured(spec: &DataSpec, blocks: Range<u64>, version: u64) -> ExpectedReduction {
    let mut copies: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for index in blocks.clone() {
        *copies.entry(bytes(spec, index, version)).or_default() += 1;
    }
    let zero = copies.remove(&vec![0; spec.block_bytes]).unwrap_or(0);
    ExpectedReduction {
        blocks: blocks.end - blocks.start,
        zero_blocks: zero,
        distinct_blocks: copies.len() as u64,
    }
}

#[test]
fn same_arguments_give_the_same_bytes_in_any_order() {
    let forwards: Vec<_> = (0..500).map(|index| bytes(&MIXED, index, 3)).collect();
    let backwards: Vec<_> = (0..500).rev().map(|index| bytes(&MIXED, index, 3)).collect();
    assert!(forwards.iter().eq(backwards.iter().rev()));
}

#[test]
fn bytes_are_the_same_on_every_machine() {
    let mut all = Vec::new();
    for (ratio, stock_pick) in [
        (1.0, StockPick::Uniform),
        (2.0, StockPick::Uniform),
        (3.0, StockPick::Zipf { theta: 0.99 }),
        (3.0, StockPick::Zipf { theta: 1.2 }),
    ] {
        let spec = DataSpec { compression_ratio: ratio, stock_pick, block_bytes: 4096, ..MIXED };
        (0..1000).for_each(|index| all.extend(bytes(&spec, index, 1)));
    }
    assert_eq!(varve_stdx::checksum64(&all), 70_422_846_682_750_913);
}

#[test]
fn seed_volume_and_version_change_the_bytes() {
    let spec = DataSpec { zero_percent: 0, duplicate_percent: 0, ..MIXED };
    let others = [
        bytes(&spec, 1, 0),
        bytes(&spec, 0, 1),
        bytes(&DataSpec { seed: 8, ..spec }, 0, 0),
        bytes(&DataSpec { volume: 1, ..spec }, 0, 0),
    ];
    assert!(others.iter().all(|other| *other != bytes(&spec, 0, 0)));
}

#[test]
fn shares_are_exact_for_whole_hundreds() {
    for (zero_percent, duplicate_percent) in
        [(0, 0), (10, 30), (0, 100), (100, 0), (1, 1), (50, 50)]
    {
        let spec = DataSpec { zero_percent, duplicate_percent, ..MIXED };
        for blocks in [0..100, 12_300..12_400, 5000..9000] {
            let contents: Vec<_> = blocks.clone().map(|index| spec.content(index, 2)).collect();
            let count =
                |wanted: fn(&DataContent) -> bool| contents.iter().filter(|c| wanted(c)).count();
            let hundreds = contents.len() / 100;
            assert_eq!(count(|c| *c == DataContent::Zero), usize::from(zero_percent) * hundreds);
            let duplicates = count(|c| matches!(c, DataContent::Stock { .. }));
            assert_eq!(duplicates, usize::from(duplicate_percent) * hundreds);
        }
    }
}

#[test]
fn classes_of_blocks_follow_no_pattern() {
    let spec = DataSpec { zero_percent: 0, duplicate_percent: 50, ..MIXED };
    let duplicate =
        |index, version| matches!(spec.content(index, version), DataContent::Stock { .. });
    for step in [1, 2, 50, 100, 128] {
        let equal = (0..20_000).filter(|index| duplicate(*index, 0) == duplicate(index + step, 0));
        let equal = equal.count();
        assert!((9_500..10_500).contains(&equal), "{equal} of 20,000 are equal {step} blocks on");
    }
    let equal = (0..20_000).filter(|index| duplicate(*index, 0) == duplicate(*index, 1)).count();
    assert!((9_500..10_500).contains(&equal), "{equal} of 20,000 are equal in the next version");
}

#[test]
fn expectation_is_what_the_bytes_hold() {
    for spec in [
        MIXED,
        DataSpec { compression_ratio: 1.0, ..MIXED },
        DataSpec { stock_pick: StockPick::Zipf { theta: 0.99 }, stock_blocks: 2000, ..MIXED },
        DataSpec { stock_blocks: 1, ..MIXED },
    ] {
        for (blocks, version) in [(0..10_000, 0), (777..2000, 5), (3..3, 0)] {
            assert_eq!(spec.expected(blocks.clone(), version), measured(&spec, blocks, version));
        }
    }
}

#[test]
fn distinct_blocks_are_those_of_the_formula() {
    let spec = DataSpec { stock_blocks: 20_000, ..MIXED };
    let blocks = 200_000u64;
    let drawn = 60_000.0;
    let stock = spec.stock_blocks as f64;
    let formula = 0.6 * blocks as f64 + stock * (1.0 - (1.0 - 1.0 / stock).powf(drawn));
    let found = spec.expected(0..blocks, 0).distinct_blocks as f64;
    assert!((found / formula - 1.0).abs() < 0.01, "{found}, {formula} by the formula");
}

#[test]
fn duplicates_by_a_zipf_law_prefer_the_first_of_the_stock() {
    let (stock_blocks, theta) = (1000u64, 0.99);
    let stock_pick = StockPick::Zipf { theta };
    let spec =
        DataSpec { stock_blocks, stock_pick, zero_percent: 0, duplicate_percent: 100, ..MIXED };
    let sum: f64 = (1..=stock_blocks).map(|k| (k as f64).powf(-theta)).sum();
    let blocks = 100_000u64;
    let mut draws = [0u64; 3];
    for index in 0..blocks {
        match spec.content(index, 0) {
            DataContent::Stock { entry } if entry < 3 => {
                draws[usize::try_from(entry).unwrap()] += 1
            }
            DataContent::Stock { entry } => assert!(entry < stock_blocks),
            content => panic!("{content:?} is not a duplicate"),
        }
    }
    for (rank, found) in draws.into_iter().enumerate() {
        let law = blocks as f64 * (rank as f64 + 1.0).powf(-theta) / sum;
        assert!((found as f64 / law - 1.0).abs() < 0.05, "rank {rank}: {found} of {law}");
    }
}

#[test]
fn volumes_of_a_seed_share_their_stock_and_nothing_else() {
    let other = DataSpec { volume: 1, ..MIXED };
    let contents =
        |spec: &DataSpec| (0..10_000).map(|i| bytes(spec, i, 0)).collect::<BTreeSet<_>>();
    let (a, b) = (contents(&MIXED), contents(&other));
    let stock = u64::try_from(a.intersection(&b).count()).unwrap();
    assert_eq!(stock, MIXED.stock_blocks + 1, "all of the stock, and zeros");
}

#[test]
fn whole_blocks_compress_as_asked() {
    let mut out = vec![0; 4096];
    for compression_ratio in [1.0, 1.5, 2.0, 4.0] {
        let spec =
            DataSpec { compression_ratio, block_bytes: 4096, duplicate_percent: 50, ..MIXED };
        let (mut logical, mut stored) = (0, 0);
        for index in 0..500 {
            if spec.content(index, 0) != DataContent::Zero {
                spec.block(index, 0, &mut out);
                logical += out.len();
                stored += lz4_flex::block::compress(&out).len().min(out.len());
            }
        }
        let ratio = logical as f64 / stored as f64;
        assert!((ratio / compression_ratio - 1.0).abs() < 0.1, "{ratio} of {compression_ratio}");
    }
}

#[test]
fn incompressible_blocks_look_random() {
    let spec = DataSpec { zero_percent: 0, compression_ratio: 1.0, block_bytes: 4096, ..MIXED };
    assert!((0..200).all(|index| varve_stdx::looks_random(&bytes(&spec, index, 0))));
}

#[test]
fn specifications_that_make_no_sense_are_refused() {
    let refused = |spec: DataSpec| spec.check().unwrap_err();
    assert!(matches!(refused(DataSpec { block_bytes: 0, ..MIXED }), Error::BlockBytes { .. }));
    assert!(matches!(refused(DataSpec { block_bytes: 1000, ..MIXED }), Error::BlockBytes { .. }));
    assert!(matches!(refused(DataSpec { zero_percent: 101, ..MIXED }), Error::Percent { .. }));
    assert!(matches!(refused(DataSpec { duplicate_percent: 255, ..MIXED }), Error::Percent { .. }));
    assert!(matches!(refused(DataSpec { zero_percent: 71, ..MIXED }), Error::Shares { .. }));
    assert!(matches!(refused(DataSpec { stock_blocks: 0, ..MIXED }), Error::EmptyStock { .. }));
    for compression_ratio in [0.99, 4.1, f64::NAN, f64::INFINITY] {
        let spec = DataSpec { compression_ratio, ..MIXED };
        assert!(matches!(refused(spec), Error::CompressionRatio { .. }), "{compression_ratio}");
    }
    let stock_pick = StockPick::Zipf { theta: 0.0 };
    assert!(matches!(refused(DataSpec { stock_pick, ..MIXED }), Error::Theta { .. }));
    MIXED.check().unwrap();
    DataSpec::default().check().unwrap();
}
