//! What a worker of a work does next.
//!
//! Works that do everything once (init, prepare, cleanup, dispose) divide containers and objects among the workers, in
//! order. In a normal work operations are dealt by their shares. Objects and containers that both count do so together,
//! objects first: COSBench counts them side by side, and touches a part of them only unless their numbers have no
//! common divisor.

use std::sync::Arc;

use varve_stdx::Rng;

use crate::cosbench::deck::Deck;
use crate::cosbench::selector::{Chooser, Selector, SharedSelector, part};
use crate::cosbench::workload::{Division, OperationSpec, Verb, WorkKind, WorkSpec};
use crate::mix::key;

/// An operation to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Index of the operation in its work.
    pub operation: usize,
    /// What it does.
    pub verb: Verb,
    /// Container with its prefix and suffix.
    pub container: String,
    /// Object likewise; empty of operations on containers.
    pub object: String,
    /// Bytes of a write; 0 of others.
    pub size_bytes: u64,
}

/// A worker's operations.
#[derive(Debug)]
pub struct WorkerPlan {
    work: Arc<WorkSpec>,
    rng: Rng,
    choosers: Vec<Choosers>,
    together: Arc<SharedCursors>,
    /// Of works that do everything once: the next of this worker, and the one behind its last.
    once: Option<(u64, u64)>,
}

/// Of one operation.
#[derive(Debug)]
struct Choosers {
    containers: Chooser,
    objects: Chooser,
    sizes: Chooser,
    /// Numbers of objects and of containers where both count; then they count together.
    both: Option<(u64, u64)>,
    so_far: u64,
}

/// What the workers of a work share.
#[derive(Debug)]
pub struct SharedCursors {
    /// Which operations are next.
    operations: Deck,
    /// Of each operation.
    selectors: Vec<SelectorsTogether>,
}

#[derive(Default, Debug)]
struct SelectorsTogether {
    containers: Arc<SharedSelector>,
    objects: Arc<SharedSelector>,
    sizes: Arc<SharedSelector>,
}

impl SharedCursors {
    /// For the workers of `work`.
    #[must_use]
    pub fn new(work: &WorkSpec) -> Arc<Self> {
        let selectors = work.operations.iter().map(|_| SelectorsTogether::default());
        Arc::new(Self { operations: Deck::default(), selectors: selectors.collect() })
    }
}

impl WorkerPlan {
    /// That of worker `worker`; everything follows from `seed`, and where workers share, from who comes first.
    ///
    /// # Panics
    /// When `together` is that of another work.
    #[must_use]
    pub fn new(
        work: &Arc<WorkSpec>,
        worker: u32,
        seed: u64,
        together: &Arc<SharedCursors>,
    ) -> Self {
        assert_eq!(together.selectors.len(), work.operations.len(), "they are of one work");
        let place = (u64::from(worker), u64::from(work.workers));
        let choosers = work.operations.iter().zip(&together.selectors);
        let choosers = choosers.map(|(operation, shared)| {
            let divided = |selector: &Selector, division, shared: &Arc<SharedSelector>| {
                let is_divided = work.division == division;
                Chooser::new(divide(selector, place, is_divided), Arc::clone(shared))
            };
            let containers =
                divided(&operation.containers, Division::Container, &shared.containers);
            let objects = divided(&operation.objects, Division::Object, &shared.objects);
            Choosers {
                both: count_of(&containers).zip(count_of(&objects)),
                containers,
                objects,
                sizes: Chooser::new(operation.sizes.clone(), Arc::clone(&shared.sizes)),
                so_far: 0,
            }
        });
        let is_once = !matches!(work.kind, WorkKind::Normal | WorkKind::Delay);
        let once = is_once.then(|| {
            let all =
                work.operations.first().map_or(0, |operation| count_once(work.kind, operation));
            let part = if all == 0 { None } else { part(0, all - 1, place.0, place.1) };
            part.map_or((0, 0), |(first, last)| (first, last + 1))
        });
        let rng = Rng::new(key([seed, place.0]));
        Self {
            choosers: choosers.collect(),
            work: Arc::clone(work),
            rng,
            together: Arc::clone(together),
            once,
        }
    }

    /// The next operation; none when everything was done once.
    pub fn next_action(&mut self) -> Option<Action> {
        let index = match self.once {
            Some((next, end)) if next == end => return None,
            Some(_) => 0,
            None => self.draw()?,
        };
        let operation = self.work.operations.get(index)?;
        let choosers = self.choosers.get_mut(index)?;
        let (container, object) = match &mut self.once {
            Some((next, _)) => {
                let place = *next;
                *next += 1;
                place_once(self.work.kind, operation, place)
            }
            None => choosers.place(&mut self.rng),
        };
        let (container, object) = names(operation, container, object);
        let is_write = operation.verb == Verb::Write;
        Some(Action {
            operation: index,
            verb: operation.verb,
            container,
            object,
            size_bytes: if is_write { choosers.sizes.next(&mut self.rng) } else { 0 },
        })
    }

    /// The same operation elsewhere: where `action` cannot be done as things are.
    pub fn elsewhere(&mut self, action: Action) -> Action {
        let Some(operation) = self.work.operations.get(action.operation) else { return action };
        let Some(choosers) = self.choosers.get_mut(action.operation) else { return action };
        let (container, object) = choosers.place(&mut self.rng);
        let (container, object) = names(operation, container, object);
        Action { container, object, ..action }
    }

    /// The operation whose turn it is.
    fn draw(&mut self) -> Option<usize> {
        let ratios = self.work.operations.iter().map(|operation| operation.ratio);
        let has_any = ratios.clone().any(|ratio| ratio > 0);
        has_any.then(|| self.together.operations.deal(ratios, &mut self.rng))
    }
}

impl Choosers {
    /// The next container and object.
    fn place(&mut self, rng: &mut Rng) -> (u64, u64) {
        let Some((_, objects)) = self.both else {
            return (self.containers.next(rng), self.objects.next(rng));
        };
        let turn = self.so_far / objects;
        self.so_far += 1;
        let object = self.objects.next(rng);
        (self.containers.at(turn), object)
    }
}

/// Those of a container and, where the operation is on one, of an object.
fn names(operation: &OperationSpec, container: u64, object: u64) -> (String, String) {
    let name = |(begin, end): &(String, String), number: u64| format!("{begin}{number}{end}");
    let has_object = matches!(operation.verb, Verb::Read | Verb::Write | Verb::Delete);
    let object = if has_object { name(&operation.object_name, object) } else { String::new() };
    (name(&operation.container_name, container), object)
}

/// How many numbers one has that counts for itself.
fn count_of(chooser: &Chooser) -> Option<u64> {
    match chooser.selector() {
        Selector::Range { min, max } => Some(max - min + 1),
        _ => None,
    }
}

/// What a worker has of a selector: its part of those that count, and of those that are drawn when `is_divided`.
fn divide(selector: &Selector, place: (u64, u64), is_divided: bool) -> Selector {
    let of = |min, max| part(min, max, place.0, place.1).unwrap_or((min, max));
    match selector {
        Selector::Range { min, max } => {
            let (min, max) = of(*min, *max);
            Selector::Range { min, max }
        }
        Selector::Uniform { min, max } if is_divided => {
            let (min, max) = of(*min, *max);
            Selector::Uniform { min, max }
        }
        other => other.clone(),
    }
}

/// How much there is to do once.
fn count_once(kind: WorkKind, operation: &OperationSpec) -> u64 {
    let count = |selector: &Selector| {
        let (min, max) = selector.bounds();
        max - min + 1
    };
    let containers = count(&operation.containers);
    match kind {
        WorkKind::Prepare | WorkKind::Cleanup => {
            containers.saturating_mul(count(&operation.objects))
        }
        _ => containers,
    }
}

/// Container and object of what is done once at that place.
fn place_once(kind: WorkKind, operation: &OperationSpec, place: u64) -> (u64, u64) {
    let ((container, _), (object, last)) =
        (operation.containers.bounds(), operation.objects.bounds());
    match kind {
        WorkKind::Prepare | WorkKind::Cleanup => {
            let objects = last - object + 1;
            (container + place / objects, object + place % objects)
        }
        _ => (container + place, object),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::cosbench::workload::Workload;

    fn missions(xml: &str, stage: usize) -> Vec<WorkerPlan> {
        let workload = Workload::read(xml).unwrap();
        let work = Arc::new(workload.stages[stage].works[0].clone());
        let together = SharedCursors::new(&work);
        (0..work.workers).map(|worker| WorkerPlan::new(&work, worker, 7, &together)).collect()
    }

    const SAMPLE: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
        <workload name="sample" description="a mix">
          <storage type="s3" config="accesskey=a;secretkey=b;endpoint=http://localhost"/>
          <workflow>
            <workstage name="init"><work type="init" workers="3" config="cprefix=c;containers=r(1,8)"/></workstage>
            <workstage name="prepare">
              <work type="prepare" workers="5" config="cprefix=c;containers=r(1,8);objects=r(1,50);sizes=c(64)KB"/>
            </workstage>
            <workstage name="main">
              <work name="main" workers="8" rampup="100" runtime="300">
                <operation type="read" ratio="80" config="cprefix=c;containers=u(1,8);objects=u(1,50)"/>
                <operation type="write" ratio="20" config="cprefix=c;containers=u(1,8);objects=u(51,100);sizes=c(64)KB"/>
                <operation type="delete" ratio="0" config="cprefix=c;containers=u(1,8);objects=u(51,100)"/>
              </work>
            </workstage>
            <workstage name="cleanup">
              <work type="cleanup" workers="2" config="cprefix=c;containers=r(1,8);objects=r(1,100)"/>
            </workstage>
            <workstage name="dispose"><work type="dispose" workers="1" config="cprefix=c;containers=r(1,8)"/></workstage>
          </workflow>
        </workload>"#;

    #[test]
    fn works_that_do_everything_once_do_everything_once() {
        for (stage, count) in [(0, 8), (1, 400), (3, 800), (4, 8)] {
            let mut all = BTreeSet::new();
            for mut mission in missions(SAMPLE, stage) {
                while let Some(action) = mission.next_action() {
                    assert!(all.insert((action.container, action.object)), "once: stage {stage}");
                }
            }
            assert_eq!(all.len(), count, "stage {stage}");
        }
    }

    #[test]
    fn a_mix_has_its_shares_and_its_numbers() {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for mut mission in missions(SAMPLE, 2) {
            for _ in 0..2500 {
                let action = mission.next_action().unwrap();
                let number: u32 =
                    action.object.strip_prefix("myobjects_").unwrap().parse().unwrap();
                let name = match action.verb {
                    Verb::Read => {
                        assert!((1..=50).contains(&number) && action.size_bytes == 0);
                        "read"
                    }
                    Verb::Write => {
                        assert!((51..=100).contains(&number) && action.size_bytes == 64_000);
                        "write"
                    }
                    other => panic!("{other:?} has no share"),
                };
                *counts.entry(name).or_default() += 1;
            }
        }
        assert_eq!((counts["read"], counts["write"]), (16_000, 4000), "dealt, not drawn");
    }

    #[test]
    fn ten_thousand_dvr_operations_have_their_shares_of_sizes() {
        // Sizes of S0's recorder: writes a quarter each, reads 80, 10, 5 and 5 %.
        let sizes = [4_000_000, 2_500_000, 1_900_000, 1_250_000];
        for shares in [[25, 25, 25, 25], [80, 10, 5, 5]] {
            let buckets: Vec<String> = sizes
                .iter()
                .zip(shares)
                .map(|(size, share)| format!("{size}|{size}|{share}"))
                .collect();
            let histogram = buckets.join(",");
            let xml = format!(
                r#"<workload name="dvr"><workflow><workstage name="w"><work name="w" workers="4" totalOps="10000">
                   <operation type="write" ratio="100" config="containers=u(1,9);objects=u(1,9);sizes=h({histogram})B"/>
                   </work></workstage></workflow></workload>"#
            );
            let mut found: BTreeMap<u64, u32> = BTreeMap::new();
            for mut mission in missions(&xml, 0) {
                for _ in 0..2500 {
                    *found.entry(mission.next_action().unwrap().size_bytes).or_default() += 1;
                }
            }
            // Dealt, not drawn: a hundred whole decks.
            for (size, share) in sizes.iter().zip(shares) {
                assert_eq!(found[size], share * 100, "{size}");
            }
        }
    }

    #[test]
    fn elsewhere_is_the_same_operation_on_another_object() {
        let mut mission = missions(SAMPLE, 2).remove(0);
        for _ in 0..200 {
            let action = mission.next_action().unwrap();
            let places: BTreeSet<(String, String)> = (0..50)
                .map(|_| {
                    let other = mission.elsewhere(action.clone());
                    assert_eq!(
                        (other.operation, other.verb, other.size_bytes),
                        (action.operation, action.verb, action.size_bytes)
                    );
                    let number: u32 = other.object["myobjects_".len()..].parse().unwrap();
                    assert_eq!(number <= 50, other.verb == Verb::Read, "{number}");
                    (other.container, other.object)
                })
                .collect();
            assert!(places.len() > 10, "{places:?}");
        }
    }

    #[test]
    fn those_that_count_both_reach_everything() {
        let xml = r#"<workload name="w"><workflow><workstage name="w"><work name="w" workers="1" totalOps="1600">
            <operation type="write" ratio="100" config="containers=r(1,32);objects=r(1,50);sizes=c(1)B"/>
            </work></workstage></workflow></workload>"#;
        let mut mission = missions(xml, 0).remove(0);
        let all: BTreeSet<_> = (0..1600)
            .map(|_| mission.next_action().unwrap())
            .map(|action| (action.container, action.object))
            .collect();
        assert_eq!(all.len(), 1600, "side by side they would reach 800");
    }

    #[test]
    fn workloads_that_cannot_be_are_refused() {
        let of = |work: &str| {
            Workload::read(&format!(
                "<workload name=\"w\"><workflow><workstage name=\"w\">{work}</workstage></workflow></workload>"
            ))
        };
        let operation =
            r#"<operation type="read" ratio="90" config="containers=c(1);objects=c(1)"/>"#;
        for (wrong, why) in [
            (r#"<work name="a" workers="1" runtime="1"></work>"#.to_owned(), "ratios are 0 together"),
            (format!(r#"<work name="a" workers="1" runtime="1">{operation}</work>"#), "ratios are 90"),
            (format!(r#"<work name="a" workers="1">{operation}</work>"#), "it never ends"),
            (format!(r#"<work name="a" runtime="1">{operation}</work>"#), "nothing of workers"),
            (r#"<work type="init" workers="1" config="containers=u(1,2)"/>"#.to_owned(), "must be r or s"),
            (
                r#"<work type="prepare" workers="1" config="containers=r(1,2);objects=r(1,2);sizes=c(1)"/>"#
                    .to_owned(),
                "none of B, KB",
            ),
            (
                r#"<work type="prepare" workers="1" config="containers=r(1,2);objects=r(1,2);sizes=c(1)B;partsize=4MB"/>"#
                    .to_owned(),
                "at least 5242880 bytes",
            ),
            (
                r#"<work type="prepare" workers="1" config="containers=r(1,2);objects=r(1,2);sizes=c(1)B;content=zero"/>"#
                    .to_owned(),
                "content `zero` cannot be had",
            ),
            ("<wrok/>".to_owned(), "no such element"),
        ] {
            let error = of(&wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Workload::read("<workload name=\"w\"><workflow></workload>").is_err());
        assert!(Workload::read("").is_err());
    }

    #[test]
    fn times_are_a_year_at_most() {
        let of = |times: &str, delay: &str| {
            Workload::read(&format!(
                r#"<workload name="w"><workflow><workstage name="w" closuredelay="{delay}"><work name="w" workers="1" {times}>
                <operation type="read" ratio="100" config="containers=c(1);objects=c(1)"/></work></workstage></workflow></workload>"#
            ))
        };
        let year = "runtime=\"31536000\" rampup=\"31536000\" rampdown=\"31536000\"";
        assert!(of(year, "31536000").is_ok());
        let most = u64::MAX;
        for (times, delay, which) in [
            (format!("runtime=\"{most}\" rampup=\"1\""), "0".to_owned(), "runtime"),
            (format!("runtime=\"1\" rampup=\"{most}\""), "0".to_owned(), "rampup"),
            ("runtime=\"1\" rampdown=\"31536001\"".to_owned(), "0".to_owned(), "rampdown"),
            ("runtime=\"1\"".to_owned(), most.to_string(), "closuredelay"),
        ] {
            let error = of(&times, &delay).unwrap_err().to_string();
            assert!(error.contains(which) && error.ends_with("s is more than a year"), "{error}");
        }
    }

    #[test]
    fn what_is_not_done_is_noted() {
        let xml = r#"<workload name="w" description="d"><storage type="s3" config="accesskey=a;secretkey=b;timeout=9;path_style_access=true"/>
            <workflow><workstage name="main" trigger="t.sh"><work name="m" workers="1" totalOps="1" interval="5" driver="d1">
            <operation type="write" ratio="50" config="cprefix=c;containers=c(1);objects=c(1);sizes=c(1)B;chunked=True;hashCheck=false;content=random"/>
            <operation type="read" ratio="50" config="containers=c(7);objects=c(1);hashCheck=true"/>
            </work></workstage></workflow></workload>"#;
        let mut workload = Workload::read(xml).unwrap();
        assert_eq!(
            workload.notes,
            [
                "timeout of storage s3 is ignored",
                "trigger of workstage main is ignored",
                "driver of work m is ignored",
                "chunked of operation write is ignored",
                "hashCheck of operation read is ignored",
            ]
        );
        assert_eq!(
            workload.names_without_buckets(),
            ["S3 has no bucket `mycontainers_7`, a server may refuse it: give --cprefix"]
        );
        workload.rename_containers("bench-");
        assert!(workload.names_without_buckets().is_empty());
        // What archived workloads of COSBench spell out and leave empty is no setting.
        let spelled = xml
            .replace("trigger=\"t.sh\"", "trigger=\"\"")
            .replace("driver=\"d1\"", "driver=\"0\"");
        let spelled = Workload::read(&spelled.replace("timeout=9", "timeout=")).unwrap();
        assert_eq!(spelled.notes.len(), 2, "{:?}", spelled.notes);
        let sample = Workload::read(SAMPLE).unwrap();
        assert!(sample.notes.is_empty(), "{:?}", sample.notes);
    }

    #[test]
    fn units_of_two_and_types_of_other_tools_are_told() {
        let of = |kind: &str, sizes: &str| {
            let xml = format!(
                r#"<workload name="w"><workflow><workstage name="main"><work workers="1" totalOps="1"><operation type="{kind}" ratio="100"
                config="cprefix=c;containers=c(1);objects=c(1);sizes={sizes}"/></work></workstage></workflow></workload>"#
            );
            Workload::read(&xml)
        };
        let bytes =
            |sizes| of("write", sizes).unwrap().stages[0].works[0].operations[0].sizes.bounds().0;
        assert_eq!(
            (bytes("c(4)KiB"), bytes("c(4)MiB"), bytes("c(1)GiB")),
            (4096, 4 << 20, 1 << 30)
        );
        assert_eq!((bytes("c(4)KB"), bytes("c(4)B")), (4000, 4));
        for (kind, what) in [("mwrite", "partsize=16MB"), ("head", "type `head` is not served")] {
            let error = of(kind, "c(1)B").unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn settings_come_from_the_nearest_element() {
        let xml = r#"<workload name="w"><storage type="s3" config="endpoint=http://a;x=1"/><workflow>
            <workstage name="a"><storage type="s3" config="endpoint=http://b"/>
              <work type="init" workers="1" config="containers=r(1,2)"><storage type="s3" config="x=2"/></work>
              <work type="init" workers="1" config="containers=r(1,2)"/></workstage>
            <workstage name="b"><work type="init" workers="1" config="containers=r(1,2)"/></workstage>
            </workflow></workload>"#;
        let workload = Workload::read(xml).unwrap();
        let settings = |stage: usize, work: usize| {
            let storage = &workload.stages[stage].works[work].storage;
            (storage["endpoint"].as_str(), storage["x"].as_str())
        };
        assert_eq!(settings(0, 0), ("http://b", "2"));
        assert_eq!(settings(0, 1), ("http://b", "1"));
        assert_eq!(settings(1, 0), ("http://a", "1"));
    }
}
