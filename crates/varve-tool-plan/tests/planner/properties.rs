//! Goal: more demand never takes fewer nodes, better parts never more, and no unit passes for another. Method: random
//! inputs.

use proptest::prelude::*;
use varve_tool_plan::endurance::{Warranty, Wear};
use varve_tool_plan::operations::{self, Operations, WriteCost};
use varve_tool_plan::{
    Amount, BitRate, ByteRate, Bytes, Joules, Money, Need, OpRate, Protection, Seconds, Share,
    Watts, capacity, journal, network::Links, parse, placement_groups, short,
};

fn protections() -> impl Strategy<Value = Protection> {
    prop_oneof![
        (1_u32..=5).prop_map(Protection::Copies),
        (1_u32..=16, 1_u32..=4).prop_map(|(data, parity)| Protection::Erasure { data, parity }),
    ]
}

fn operations_a_second() -> impl Strategy<Value = Operations> {
    (1e3..1e7, 1e3..1e7).prop_map(|(reads, writes)| Operations {
        reads: OpRate::of_base(reads),
        writes: OpRate::of_base(writes),
    })
}

/// Whether a text is read as an amount of each kind, in the order of `KINDS`.
fn readers(text: &str) -> Vec<&'static str> {
    fn reads<T: Amount>(text: &str) -> Option<&'static str> {
        parse::<T>(text).is_ok().then_some(T::KIND)
    }
    let kinds = [
        reads::<Bytes>(text),
        reads::<ByteRate>(text),
        reads::<BitRate>(text),
        reads::<Seconds>(text),
        reads::<Watts>(text),
        reads::<Joules>(text),
        reads::<Share>(text),
        reads::<OpRate>(text),
    ];
    kinds.into_iter().flatten().collect()
}

fn units<T: Amount>() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = T::UNITS.iter().map(|(name, _)| *name).collect();
    prop::sample::select(names)
}

proptest! {
    #[test]
    fn a_text_with_a_unit_is_one_kind_of_amount(
        number in 0.0..1e6,
        unit in prop_oneof![
            units::<Bytes>(), units::<ByteRate>(), units::<BitRate>(), units::<Seconds>(),
            units::<Watts>(), units::<Joules>(), units::<Share>(), units::<OpRate>(),
        ],
    ) {
        prop_assert_eq!(readers(&format!("{number}{unit}")).len(), 1, "{}{}", number, unit);
    }

    #[test]
    fn binary_units_are_larger_than_decimal_ones(number in 1.0..1e6, prefix in "[KMGTP]") {
        let decimal: Bytes = parse(&format!("{number}{prefix}B")).unwrap();
        let binary: Bytes = parse(&format!("{number}{prefix}iB")).unwrap();
        prop_assert!(binary > decimal * 1.02);
    }

    #[test]
    fn a_link_carries_an_eighth_of_its_bits(gbit in 1.0..800.0, nodes in 1_u64..100, ports in 1_u64..4) {
        let links = Links { nodes, ports, speed: parse(&format!("{gbit}Gbit/s")).unwrap() };
        let one: ByteRate = parse(&format!("{}MB/s", gbit * 125.0)).unwrap();
        let ratio = links.ceiling() / one;
        prop_assert!((ratio / (nodes * ports) as f64 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_shown_is_read_again(bytes in 1.0_f64..1e15) {
        let amount = Bytes::of_base(bytes.round());
        let again: Bytes = parse(&amount.to_string().replace(',', "")).unwrap();
        prop_assert!((again / amount - 1.0).abs() < 6e-4, "{} {}", amount, bytes);
    }

    #[test]
    fn short_numbers_are_close(value in -1e9_f64..1e9) {
        let again: f64 = short(value).replace(',', "").parse().unwrap();
        prop_assert!((again - value).abs() <= (value.abs() * 6e-4).max(6e-5), "{} {}", value, again);
    }

    #[test]
    fn needs_cover_and_waste_less_than_one(required in 0.0..1e12, supply in 1e-3..1e9) {
        prop_assume!(required / supply < 1e15);
        let need = Need::of("parts", required, supply).unwrap();
        prop_assert!(need.count as f64 >= need.exact - 1e-9 * need.exact);
        prop_assert!((need.count as f64) < need.exact + 1.0);
    }

    #[test]
    fn more_data_never_takes_fewer_nodes(
        raw in 1.0..1e3, demand in 0.0..1e5, more in 0.0..1e5, protection in protections(),
    ) {
        let node = protection.usable(Bytes::of_base(raw * 1e12));
        let nodes = |tb: f64| capacity::nodes(Bytes::of_base(tb * 1e12), node).unwrap().count;
        prop_assert!(nodes(demand) <= nodes(demand + more));
    }

    #[test]
    fn more_operations_never_take_fewer_nodes(
        demand in operations_a_second(), more in operations_a_second(), node in operations_a_second(),
        copies in 1.0..6.0, journal_factor in 1.0..2.0,
    ) {
        let cost = WriteCost { copies, journal_factor };
        let nodes = |reads, writes, cost| {
            operations::nodes(Operations { reads, writes }, cost, node).unwrap().count
        };
        let least = nodes(demand.reads, demand.writes, cost);
        prop_assert!(least <= nodes(demand.reads + more.reads, demand.writes, cost));
        prop_assert!(least <= nodes(demand.reads, demand.writes + more.writes, cost));
        let dearer = WriteCost { copies: copies + 1.0, journal_factor };
        prop_assert!(least <= nodes(demand.reads, demand.writes, dearer));
    }

    #[test]
    fn more_writing_never_lasts_longer(
        daily in 1e9..1e15, more in 1.0..10.0, drives in 1_u64..1000, dwpd in 0.1..10.0,
        protection in protections(),
    ) {
        let warranty = Warranty {
            capacity: Bytes::of_base(1.6e12), drive_writes_per_day: dwpd, years: 5.0,
        };
        let life = |daily, drives| {
            let wear = Wear {
                client_per_day: Bytes::of_base(daily), overhead: protection.overhead(),
                write_amplification: 1.3, journal_factor: 1.0, drives,
            };
            wear.lifetime(warranty).unwrap()
        };
        prop_assert!(life(daily, drives) >= life(daily * more, drives));
        prop_assert!(life(daily, drives) <= life(daily, drives + 1));
    }

    #[test]
    fn protection_takes_what_it_says(protection in protections(), raw in 1.0..1e18) {
        let raw = Bytes::of_base(raw);
        let usable = protection.usable(raw);
        prop_assert!(usable <= raw);
        prop_assert!((usable * protection.overhead() / raw - 1.0).abs() < 1e-12);
        prop_assert!(protection.tolerates() < protection.width());
        let text = match protection {
            Protection::Copies(copies) => copies.to_string(),
            Protection::Erasure { data, parity } => format!("{data}+{parity}"),
        };
        prop_assert_eq!(text.parse::<Protection>().unwrap(), protection);
    }

    #[test]
    fn placement_groups_are_the_power_of_two_that_ceph_chooses(
        osds in 1_u64..100_000, protection in protections(),
    ) {
        let groups = placement_groups::of_pool(osds, protection, 1.0).unwrap();
        prop_assert!(groups.count.is_power_of_two());
        let exact = osds as f64 * 100.0 / f64::from(protection.width());
        // At most a quarter below the formula, and at most half above it.
        let count = groups.count as f64;
        prop_assert!(count >= exact * 0.75 - 1e-6 && count <= (exact * 1.5).max(1.0) + 1e-6);
        prop_assert!(groups.per_osd <= 150.0 + 1e-6 || groups.count == 1);
        prop_assert!((groups.formula as f64 - exact).abs() <= 1.0);
    }

    #[test]
    fn journals_are_spread_evenly(osds in 0_u64..1000, drives in 1_u64..50) {
        let partitions = journal::partitions(osds, drives).unwrap();
        prop_assert_eq!(partitions.iter().sum::<u64>(), osds);
        let (least, most) = (partitions.iter().min().unwrap(), partitions.iter().max().unwrap());
        prop_assert!(most - least <= 1);
    }

    #[test]
    fn machines_are_never_promised_too_many(rate in 0.0..1e9, each in 1.0..1e4) {
        let machines = operations::machines(OpRate::of_base(rate), OpRate::of_base(each)).unwrap();
        prop_assert!(machines as f64 * each <= rate * (1.0 + 1e-8) + 1e-6);
        prop_assert!((machines + 1) as f64 * each >= rate * (1.0 - 1e-8));
    }

    #[test]
    fn money_is_a_bare_number(price in 0_u32..1_000_000) {
        prop_assert_eq!(parse::<Money>(&price.to_string()).unwrap().base(), f64::from(price));
    }
}
