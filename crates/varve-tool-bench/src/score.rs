//! Scores: what the loads of a preset came to, in the terms of its metric. Points that were not measured are never
//! guessed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::preset::Metric;

/// A load of a preset as it was measured.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Point {
    /// The load in words.
    pub name: String,
    /// Setting of the measured system that it was done under.
    pub setting: Option<String>,
    /// Whether its figures mean anything.
    pub is_valid: bool,
    /// Jobs of all clients.
    pub jobs: u32,
    /// Share of operations that read.
    pub read_percent: u8,
    /// Operations a second.
    pub rate: f64,
    /// Bytes a second.
    pub bytes_rate: f64,
    /// Mean latency, in µs.
    pub mean_us: f64,
    /// p99 of all operations, in µs.
    pub p99_us: f64,
    /// p99 of reads alone and of writes alone, in µs; none where there are none.
    pub p99_us_by_kind: [Option<f64>; 2],
    /// The longest latency, in µs.
    pub max_us: f64,
    /// Length of the shortest window, in ms.
    pub window_ms: u64,
}

/// What loads came to. Fields are added over time, never renamed.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Score {
    /// What it is.
    pub name: String,
    /// None where it could not be told: the text says why.
    pub value: Option<f64>,
    /// Of the value.
    pub unit: String,
    /// Whether it is what it should be, where the metric says.
    pub met: Option<bool>,
    /// In words.
    pub text: String,
}

impl Score {
    fn of(name: &str, value: f64, unit: &str, text: String) -> Self {
        Self { name: name.to_owned(), value: Some(value), unit: unit.to_owned(), met: None, text }
    }

    fn unknown(name: &str, why: String) -> Self {
        let unit = String::new();
        Self { name: name.to_owned(), value: None, unit, met: None, text: format!("none: {why}") }
    }

    fn met(self, is_met: bool) -> Self {
        let text = format!("{}: {}", self.text, if is_met { "met" } else { "NOT met" });
        Self { met: Some(is_met), text, ..self }
    }

    /// A time in all, beside that of the source; none where not everything was done as it should be.
    #[must_use]
    pub fn wall(seconds: Option<f64>, source_s: f64) -> Self {
        let Some(seconds) = seconds else {
            return Self::unknown("wall", "something failed, was left or was not begun".to_owned());
        };
        let text =
            format!("{seconds:.1} s, {:.2} times the source's {source_s} s", seconds / source_s);
        Self::of("wall", seconds, "s", text)
    }

    /// Those of the loads of a preset, of each setting for itself; `nic_gbit` is what the server's network carries, in
    /// Gbit/s.
    #[must_use]
    pub fn all(metric: &Metric, points: &[Point], nic_gbit: Option<f64>) -> Vec<Self> {
        let of_setting = |points: &[Point]| {
            let under = points.first().and_then(|point| point.setting.clone());
            let scores = of_one_setting(metric, points, nic_gbit).into_iter();
            let named = scores.map(|score| match &under {
                None => score,
                Some(setting) => Self { name: format!("{}, under {setting}", score.name), ..score },
            });
            named.collect::<Vec<_>>()
        };
        points.chunk_by(|one, next| one.setting == next.setting).flat_map(of_setting).collect()
    }
}

fn of_one_setting(metric: &Metric, points: &[Point], nic_gbit: Option<f64>) -> Vec<Score> {
    let valid: Vec<&Point> = points.iter().filter(|point| point.is_valid).collect();
    if valid.is_empty() {
        return vec![Score::unknown("score", "no load was valid".to_owned())];
    }
    let each = |of: &dyn Fn(&Point) -> Score| valid.iter().map(|point| of(point)).collect();
    let by_reads = |points: &[&Point], of: &dyn Fn(&str, &[&Point]) -> Vec<Score>| {
        let shares: BTreeSet<u8> = points.iter().map(|point| point.read_percent).collect();
        let of_share = |share: &u8| {
            let alike = points.iter().filter(|point| point.read_percent == *share);
            of(&format!("{share} % reads"), &alike.copied().collect::<Vec<&Point>>())
        };
        shares.iter().rev().flat_map(of_share).collect()
    };
    match *metric {
        Metric::Table => each(&table),
        Metric::Volumes { rate } => each(&|point| volumes(point, rate)),
        // What means nothing was no success, as the search has it.
        Metric::Capped { p99_ms } => {
            let all: Vec<&Point> = points.iter().collect();
            by_reads(&all, &|name, points| vec![capped(name, points, p99_ms)])
        }
        Metric::Within { mean_ms } => by_reads(&valid, &|name, points| {
            mean_ms.iter().map(|ms| within(name, points, *ms)).collect()
        }),
        // The second load is one beside the first: neither may be missing.
        Metric::Drop { percent } => vec![match points {
            [before, after] if valid.len() == 2 => drop_of(before, after, percent),
            _ => Score::unknown("drop", "it takes both loads, and both valid".to_owned()),
        }],
        Metric::Knee { percent } => vec![knee(&valid, percent)],
        Metric::Streams => valid.iter().flat_map(|point| streams(point)).collect(),
        Metric::Gates { rates, mean_ms } => {
            let both = |point: &&Point| {
                let [node, cluster] = rates;
                [("node", node), ("cluster", cluster)]
                    .map(|(name, rate)| gate(name, point, rate, mean_ms))
            };
            valid.iter().flat_map(both).collect()
        }
        Metric::Readers { within_s, is_strict } => vec![readers(points, within_s, is_strict)],
        Metric::Network => each(&|point| network(point, nic_gbit)),
        // Lives are no loads: `Score::wall` is theirs.
        Metric::Wall { .. } => Vec::new(),
    }
}

/// Decimal megabytes.
fn mb(bytes: f64) -> f64 {
    bytes / 1e6
}

fn table(point: &Point) -> Score {
    let Point { name, rate, bytes_rate, mean_us, .. } = point;
    let (mb, ms) = (mb(*bytes_rate), mean_us / 1000.0);
    let text = format!("{rate:.0} operations/s, {mb:.1} MB/s, mean {ms:.3} ms");
    Score::of(name, *rate, "operations/s", text)
}

fn volumes(point: &Point, rate: f64) -> Score {
    let count = (point.rate / rate).floor();
    let text = format!("{count} volumes at {rate} operations/s each");
    Score::of(&format!("{} % reads", point.read_percent), count, "volumes", text)
}

/// Whether a number of volumes is fast enough.
fn is_fast(point: &Point, p99_ms: u32) -> bool {
    point.is_valid && point.p99_us <= f64::from(p99_ms) * 1000.0
}

fn capped(name: &str, points: &[&Point], p99_ms: u32) -> Score {
    let (fast, slow): (Vec<&Point>, Vec<&Point>) =
        points.iter().copied().partition(|point| is_fast(point, p99_ms));
    let first_slow = slow.into_iter().min_by_key(|point| point.jobs);
    // Where fewer were too slow, more were fast by chance.
    let fast = fast.iter().map(|point| point.jobs);
    let most = fast.filter(|jobs| first_slow.is_none_or(|slow| *jobs < slow.jobs)).max();
    let most = most.unwrap_or(0);
    let more = beyond(first_slow);
    let text = format!("{most} volumes with p99 within {p99_ms} ms; {more}");
    Score::of(name, f64::from(most), "volumes", text)
}

/// What became of the first number that was no success.
fn beyond(first: Option<&Point>) -> String {
    match first {
        None => "no more were tried".to_owned(),
        Some(point) if point.is_valid => format!("{} are too many", point.jobs),
        Some(point) => format!("what {} had means nothing", point.jobs),
    }
}

fn within(name: &str, points: &[&Point], mean_ms: u32) -> Score {
    let name = format!("{name} within {mean_ms} ms");
    let fast = points.iter().filter(|point| point.mean_us <= f64::from(mean_ms) * 1000.0);
    match fast.max_by(|one, other| one.rate.total_cmp(&other.rate)) {
        None => Score::unknown(&name, "no load had such a mean latency".to_owned()),
        Some(best) => {
            let (rate, ms) = (best.rate, best.mean_us / 1000.0);
            let text = format!("{rate:.0} operations/s, mean {ms:.3} ms ({})", best.name);
            Score::of(&name, rate, "operations/s", text)
        }
    }
}

fn drop_of(before: &Point, after: &Point, percent: f64) -> Score {
    if before.rate <= 0.0 {
        return Score::unknown("drop", "the first load had no operations".to_owned());
    }
    let lost = (before.rate - after.rate) * 100.0 / before.rate;
    let change = if lost < 0.0 { "more" } else { "fewer" };
    let text =
        format!("{:.1} % {change} operations/s, to be less than {percent} % fewer", lost.abs());
    Score::of("drop", lost, "%", text).met(lost < percent)
}

fn knee(points: &[&Point], percent: f64) -> Score {
    let mut curve = points.to_vec();
    curve.sort_by_key(|point| point.jobs);
    let pays = |pair: &[&Point]| pair[1].rate >= pair[0].rate * (1.0 + percent / 100.0);
    let flat = curve.windows(2).position(|pair| !pays(pair));
    let knee = curve[flat.unwrap_or(curve.len() - 1)];
    let end = match flat.map(|at| curve[at + 1]) {
        None => "no more were measured".to_owned(),
        Some(next) => format!("{} have {:.2} times as many", next.jobs, next.rate / knee.rate),
    };
    let text = format!("{} workers, {:.0} operations/s; {end}", knee.jobs, knee.rate);
    Score::of("knee", f64::from(knee.jobs), "workers", text)
}

fn streams(point: &Point) -> Vec<Score> {
    let rate = mb(point.bytes_rate);
    let p99 = match point.p99_us_by_kind[0] {
        None => Score::unknown("p99 of reads", "there were no reads".to_owned()),
        Some(us) => Score::of("p99 of reads", us / 1000.0, "ms", format!("{:.3} ms", us / 1000.0)),
    };
    vec![Score::of("bytes", rate, "MB/s", format!("{rate:.1} MB/s")), p99]
}

fn gate(name: &str, point: &Point, rate: f64, mean_ms: u32) -> Score {
    let mean = point.mean_us / 1000.0;
    let text = format!(
        "{:.0} operations/s at {mean:.2} ms, to be above {rate} and below {mean_ms} ms",
        point.rate
    );
    let is_met = point.rate > rate && mean < f64::from(mean_ms);
    Score::of(name, point.rate, "operations/s", text).met(is_met)
}

fn readers(points: &[Point], within_s: u32, is_strict: bool) -> Score {
    let in_time = |point: &&Point| {
        let [reads, writes] = point.p99_us_by_kind;
        let slowest = if is_strict {
            Some(point.max_us)
        } else {
            reads.into_iter().chain(writes).reduce(f64::max)
        };
        let bound_us = f64::from(within_s) * 1e6;
        point.is_valid && reads.is_some() && slowest.is_some_and(|us| us < bound_us)
    };
    let mut by_readers: Vec<&Point> = points.iter().collect();
    by_readers.sort_by_key(|point| point.jobs);
    let met = by_readers.iter().copied().take_while(in_time);
    let most = met.map(|point| point.jobs).max().unwrap_or(0);
    let more = beyond(by_readers.into_iter().find(|point| point.jobs > most));
    let segments = if is_strict { "every segment" } else { "99 % of segments" };
    let shortest_ms = points.iter().map(|point| point.window_ms).min().unwrap_or(0);
    let short = if shortest_ms < 2000 * u64::from(within_s) {
        format!("; windows of {} s are too short for queues to show", shortest_ms as f64 / 1000.0)
    } else {
        String::new()
    };
    let text = format!("{most} with {segments} below {within_s} s; {more}{short}");
    Score::of("readers", f64::from(most), "readers", text)
}

fn network(point: &Point, nic_gbit: Option<f64>) -> Score {
    let Point { rate, bytes_rate, .. } = *point;
    let beside = match nic_gbit {
        None => "what the server's network carries is not known: say --nic-gbit".to_owned(),
        Some(_) if bytes_rate <= 0.0 => "no bytes were carried".to_owned(),
        Some(gbit) => {
            let limit = gbit * 1e9 / 8.0 / (bytes_rate / rate);
            let share = rate / limit * 100.0;
            format!("{share:.1} % of {limit:.0} objects/s that {gbit} Gbit/s carry")
        }
    };
    Score::of("objects", rate, "objects/s", format!("{rate:.1} objects/s; {beside}"))
}

/// Volumes that the search tries at most: histograms of each take a MiB.
const VOLUMES_MAX: u32 = 640;

/// The next number of volumes to try, a multiple of `unit`, given those that were tried, until the largest one that is
/// fast enough is known to a tenth.
#[must_use]
pub fn next_volumes(tried: &[Point], p99_ms: u32, unit: u32) -> Option<u32> {
    let jobs = |is: bool| {
        let of = tried.iter().filter(move |point| is_fast(point, p99_ms) == is);
        of.map(|point| point.jobs)
    };
    let slow = jobs(false).min();
    let fast = jobs(true).filter(|jobs| slow.is_none_or(|slow| *jobs < slow)).max();
    let most = VOLUMES_MAX / unit * unit;
    let next = match (fast, slow) {
        (None, None) => None,
        (None, Some(slow)) => (slow > unit).then_some(slow / 2),
        (Some(fast), None) => (fast < most).then_some((fast * 2).min(most)),
        (Some(fast), Some(slow)) => {
            (slow - fast > (fast / 10).max(unit)).then_some(fast.midpoint(slow))
        }
    };
    next.map(|next| next / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(jobs: u32, rate: f64, ms: f64) -> Point {
        Point {
            name: format!("{jobs} jobs"),
            is_valid: true,
            jobs,
            read_percent: 100,
            rate,
            bytes_rate: rate * 128_000.0,
            mean_us: ms * 1000.0,
            p99_us: ms * 2000.0,
            p99_us_by_kind: [Some(ms * 2000.0), None],
            max_us: ms * 3000.0,
            window_ms: 300_000,
            ..Point::default()
        }
    }

    fn values(metric: Metric, points: &[Point]) -> Vec<Option<f64>> {
        Score::all(&metric, points, None).iter().map(|score| score.value).collect()
    }

    #[test]
    fn desktops_are_whole_volumes() {
        assert_eq!(
            values(Metric::Volumes { rate: 100.0 }, &[point(40, 4599.0, 1.0)]),
            [Some(45.0)]
        );
    }

    #[test]
    fn bounds_take_the_best_measured_point_and_guess_none() {
        let mut points = vec![point(1, 900.0, 0.9), point(1, 1500.0, 2.9), point(1, 1400.0, 3.5)];
        let metric = Metric::Within { mean_ms: &[1, 3, 4] };
        assert_eq!(values(metric, &points), [Some(900.0), Some(1500.0), Some(1500.0)]);
        points[0].is_valid = false;
        let scores = Score::all(&metric, &points, None);
        assert_eq!((scores[0].value, scores[1].value), (None, Some(1500.0)));
        assert_eq!(scores[0].text, "none: no load had such a mean latency");
        points[2].read_percent = 70;
        let names: Vec<String> =
            Score::all(&metric, &points, None).into_iter().map(|score| score.name).collect();
        assert_eq!(names[2..4], ["100 % reads within 4 ms", "70 % reads within 1 ms"]);
        points.iter_mut().for_each(|point| point.is_valid = false);
        assert_eq!(Score::all(&metric, &points, None)[0].text, "none: no load was valid");
    }

    #[test]
    fn snapshots_cost_what_the_second_load_lost() {
        let metric = Metric::Drop { percent: 20.0 };
        let of =
            |after| Score::all(&metric, &[point(40, 1000.0, 1.0), point(40, after, 1.0)], None);
        assert_eq!((of(850.0)[0].value.unwrap().round(), of(850.0)[0].met), (15.0, Some(true)));
        assert_eq!(of(800.0)[0].met, Some(false), "20 % are not less than 20 %");
        let more = &of(1074.0)[0].text;
        assert_eq!(more, "7.4 % more operations/s, to be less than 20 % fewer: met");
        assert_eq!(values(metric, &[point(40, 1000.0, 1.0)]), [None]);
    }

    #[test]
    fn the_knee_is_the_last_step_that_pays() {
        let curve = |rates: &[(u32, f64)]| -> Vec<Point> {
            rates.iter().map(|(jobs, rate)| point(*jobs, *rate, 1.0)).collect()
        };
        let metric = Metric::Knee { percent: 5.0 };
        let source = [(1, 1518.0), (2, 2917.0), (3, 4240.0), (4, 5496.0), (8, 11_059.0)];
        let source = [&source[..], &[(16, 13_209.0), (32, 12_390.0)]].concat();
        assert_eq!(values(metric, &curve(&source)), [Some(16.0)], "S4's own");
        let flat = curve(&[(1, 100.0), (2, 104.0), (4, 900.0)]);
        assert_eq!(values(metric, &flat), [Some(1.0)], "what comes behind a flat part is chance");
        let straight = &Score::all(&metric, &curve(&[(1, 1.0), (2, 2.0)]), None)[0];
        assert!(straight.value == Some(2.0) && straight.text.ends_with("no more were measured"));
    }

    #[test]
    fn readers_count_while_all_fewer_ones_are_served_too() {
        let mut points: Vec<Point> = [(100, 0.5), (200, 3.9), (300, 4.1), (400, 1.0)]
            .map(|(jobs, s)| point(jobs, 9.0, s * 1000.0))
            .into();
        let most = |is_strict| Metric::Readers { within_s: 8, is_strict };
        assert_eq!(values(most(false), &points), [Some(200.0)]);
        assert_eq!(values(most(true), &points), [Some(100.0)], "one segment of 200 took 11.7 s");
        points[1].p99_us_by_kind[1] = Some(9e6);
        assert_eq!(values(most(false), &points), [Some(100.0)], "writes are segments too");
        points[0].is_valid = false;
        assert_eq!(values(most(false), &points), [Some(0.0)]);
        points[0].window_ms = 1000;
        let text = &Score::all(&most(false), &points, None)[0].text;
        assert!(text.ends_with("windows of 1 s are too short for queues to show"), "{text}");
    }

    #[test]
    fn objects_stand_beside_what_the_network_carries() {
        let points = [point(320, 4882.8125, 1.0)];
        let with = &Score::all(&Metric::Network, &points, Some(10.0))[0];
        assert!(
            with.text.contains("50.0 % of 9766 objects/s that 10 Gbit/s carry"),
            "{}",
            with.text
        );
        assert!(Score::all(&Metric::Network, &points, None)[0].text.contains("say --nic-gbit"));
    }

    #[test]
    fn volumes_whose_figures_mean_nothing_are_no_success() {
        let mut points = vec![point(40, 4000.0, 1.0), point(80, 8000.0, 1.0)];
        let metric = Metric::Capped { p99_ms: 20 };
        assert_eq!(values(metric, &points), [Some(80.0)]);
        points[1].is_valid = false;
        let score = &Score::all(&metric, &points, None)[0];
        assert_eq!(score.value, Some(40.0));
        assert!(score.text.ends_with("; what 80 had means nothing"), "{}", score.text);
        assert_eq!(next_volumes(&points, 20, 1), Some(60));
    }

    #[test]
    fn other_metrics_tell_their_figures() {
        let points = [point(40, 250_000.0, 4.0)];
        let met = |metric| -> Vec<Option<bool>> {
            Score::all(&metric, &points, None).iter().map(|score| score.met).collect()
        };
        let rates = [200_000.0, 500_000.0];
        assert_eq!(met(Metric::Gates { rates, mean_ms: 5 }), [Some(true), Some(false)]);
        assert_eq!(met(Metric::Gates { rates, mean_ms: 4 }), [Some(false), Some(false)]);
        assert_eq!(values(Metric::Streams, &points), [Some(32_000.0), Some(8.0)]);
        assert_eq!(values(Metric::Table, &points), [Some(250_000.0)]);
        assert!(Score::wall(Some(56.7), 283.5).text.ends_with("0.20 times the source's 283.5 s"));
    }

    #[test]
    fn each_setting_has_scores_of_its_own() {
        let under =
            |name: &str, rate| Point { setting: Some(name.to_owned()), ..point(1, rate, 1.0) };
        let points = [under("a", 100.0), under("b", 300.0)];
        let scores = Score::all(&Metric::Volumes { rate: 100.0 }, &points, None);
        assert_eq!((scores[0].value, scores[1].value), (Some(1.0), Some(3.0)));
        assert_eq!(scores[1].name, "100 % reads, under b");
    }

    #[test]
    fn the_largest_number_of_volumes_is_found_to_a_tenth() {
        for (limit, unit) in [0, 1, 2, 7, 39, 40, 97, 333, 639, 10_000]
            .into_iter()
            .flat_map(|limit| [1, 4, 5].map(|unit| (limit, unit)))
        {
            let point_of = |jobs: u32| point(jobs, 1.0, if jobs <= limit { 10.0 } else { 11.0 });
            let mut tried = vec![point_of(40)];
            while let Some(next) = next_volumes(&tried, 20, unit) {
                assert!(tried.iter().all(|point| point.jobs != next), "{limit}: {next} again");
                assert!(next > 0 && next.is_multiple_of(unit) && next <= VOLUMES_MAX, "{next}");
                tried.push(point_of(next));
                assert!(tried.len() < 16, "{limit}: {tried:?}");
            }
            let tried: Vec<&Point> = tried.iter().collect();
            let most = capped("", &tried, 20).value.unwrap();
            let (best, unit) = (f64::from(limit.min(VOLUMES_MAX)), f64::from(unit));
            assert!(most <= best && best - most <= (best / 10.0).max(unit), "{limit}: {most}");
        }
    }
}
