//! A workload as COSBench's XML says it: stages one after another, in each works side by side, in each workers that do
//! operations.

use std::collections::BTreeMap;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::cosbench::selector::Selector;
use crate::error::{Error, Result};

/// Bytes of COSBench's units: powers of ten, and of two where they say so.
const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Shortest part but the last one that S3 takes, in bytes.
const PART_BYTES_MIN: u64 = 5 << 20;

/// Most workers of a work.
const WORKERS_MAX: u32 = 4096;

/// Longest time, in s: a year. Sums of times stay far from the end of 64 bits, and of clocks.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;

/// Attributes of a work that are understood; an interval is that of reports of COSBench's own.
const WORK_ATTRIBUTES: [&str; 12] = [
    "name",
    "type",
    "workers",
    "interval",
    "division",
    "runtime",
    "rampup",
    "rampdown",
    "afr",
    "totalOps",
    "totalBytes",
    "config",
];

/// Settings of operations that are understood, or refused.
const SETTINGS: [&str; 9] = [
    "containers",
    "objects",
    "sizes",
    "cprefix",
    "csuffix",
    "oprefix",
    "osuffix",
    "partsize",
    "content",
];

/// A workload.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// One after another.
    pub stages: Vec<Workstage>,
    /// What it asks for and COSBench would do, and `varve bench cosbench` does not; and names that S3 has not.
    pub notes: Vec<String>,
}

/// Works side by side.
#[derive(Clone, PartialEq, Debug)]
pub struct Workstage {
    /// Its name.
    pub name: String,
    /// Time to wait when it is over, in s.
    pub closure_delay_s: u64,
    /// Its works.
    pub works: Vec<WorkSpec>,
}

/// What workers do.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkSpec {
    /// Its name.
    pub name: String,
    /// What for.
    pub kind: WorkKind,
    /// Clients at a time.
    pub workers: u32,
    /// When it is over.
    pub end: WorkEnd,
    /// Time before measurement, in s, which is no part of a runtime.
    pub ramp_up_s: u64,
    /// Time after measurement, in s, which is no part of a runtime.
    pub ramp_down_s: u64,
    /// Operations of a million that may fail.
    pub failures_accepted: u64,
    /// Whether each worker has containers, or objects, of its own.
    pub division: Division,
    /// Storage settings, the inner ones over the outer ones.
    pub storage: BTreeMap<String, String>,
    /// Operations by share; the shares are 100 together.
    pub operations: Vec<OperationSpec>,
}

/// What a work is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkKind {
    /// Makes containers.
    Init,
    /// Makes objects.
    Prepare,
    /// The load.
    Normal,
    /// Removes objects.
    Cleanup,
    /// Removes containers.
    Dispose,
    /// Waits.
    Delay,
}

/// When a work is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkEnd {
    /// After this time, in s.
    Runtime(u64),
    /// After this many operations of all workers.
    Operations(u64),
    /// After this many bytes of all workers.
    Bytes(u64),
    /// When everything is done once.
    Once,
}

/// What workers do not share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Division {
    /// Nothing.
    None,
    /// Containers.
    Container,
    /// Objects.
    Object,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// Makes a container.
    MakeContainer,
    /// Removes a container.
    RemoveContainer,
    /// Reads an object.
    Read,
    /// Writes an object.
    Write,
    /// Removes an object.
    Delete,
    /// Lists a container.
    List,
}

/// An operation and its numbers.
#[derive(Clone, PartialEq, Debug)]
pub struct OperationSpec {
    /// What it does.
    pub verb: Verb,
    /// Share, in percent.
    pub ratio: u64,
    /// Which containers.
    pub containers: Selector,
    /// Which objects.
    pub objects: Selector,
    /// Sizes in bytes, of writes.
    pub sizes: Selector,
    /// Bytes of a part, of writes of objects that are longer: `partsize`, which COSBench does not know.
    pub part_bytes: Option<u64>,
    /// Whether what is read is compared: `hashCheck`.
    pub verifies: bool,
    /// What names of containers begin and end with.
    pub container_name: (String, String),
    /// What names of objects begin and end with.
    pub object_name: (String, String),
}

impl Workload {
    /// Reads COSBench's XML.
    ///
    /// # Errors
    /// `Workload`, with the element that is wrong.
    pub fn read(xml: &str) -> Result<Self> {
        let mut reading = WorkReader::default();
        let mut reader = Reader::from_str(xml);
        loop {
            let refused = |error: &dyn ToString| refused("the XML", error.to_string());
            match reader.read_event().map_err(|error| refused(&error))? {
                Event::Start(start) => reading.start(&Element::of(&start)?)?,
                Event::Empty(start) => {
                    let element = Element::of(&start)?;
                    reading.start(&element)?;
                    reading.end(&element.name)?;
                }
                Event::End(end) => {
                    let name = String::from_utf8_lossy(end.name().as_ref()).into_owned();
                    reading.end(&name)?;
                }
                Event::Eof => break,
                _ => {}
            }
        }
        reading.whole()
    }
}

impl Workload {
    /// Gives all containers names that begin with `prefix`, instead of what the workload says.
    pub fn rename_containers(&mut self, prefix: &str) {
        let works = self.stages.iter_mut().flat_map(|stage| &mut stage.works);
        for operation in works.flat_map(|work| &mut work.operations) {
            prefix.clone_into(&mut operation.container_name.0);
        }
    }

    /// Names of containers that S3 has no buckets of, each once, as of COSBench's own `mycontainers_1`.
    #[must_use]
    pub fn names_without_buckets(&self) -> Vec<String> {
        let works = self.stages.iter().flat_map(|stage| &stage.works);
        let mut notes = Vec::new();
        for note in works.flat_map(|work| &work.operations).filter_map(no_bucket) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        notes
    }

    /// Objects that are written before the load, and about how many bytes those are.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bytes above 0; more than 64 bits are as good as the most"
    )]
    pub fn prepared(&self) -> (u64, u64) {
        let works = self.stages.iter().flat_map(|stage| &stage.works);
        let prepares = works.filter(|work| work.kind == WorkKind::Prepare);
        let mut all = (0, 0.0);
        for operation in prepares.flat_map(|work| &work.operations) {
            let objects =
                counted(&operation.containers).saturating_mul(counted(&operation.objects));
            all = (all.0 + objects, all.1 + objects as f64 * operation.sizes.mean());
        }
        (all.0, all.1 as u64)
    }

    /// The same with fewer objects, at least one of each range, so that about `size_bytes` are written before the load:
    /// first fewer in each container, then fewer containers.
    pub fn shrink(&mut self, size_bytes: u64) {
        let (_, bytes) = self.prepared();
        let share = size_bytes as f64 / bytes.max(1) as f64;
        if bytes == 0 || share >= 1.0 {
            return;
        }
        let works = || self.stages.iter().flat_map(|stage| &stage.works);
        let counts = works().flat_map(|work| &work.operations).map(|one| counted(&one.objects));
        let fewest = counts.filter(|count| *count > 1).min().unwrap_or(1);
        let of_objects = share.max(1.0 / fewest as f64);
        let works = self.stages.iter_mut().flat_map(|stage| &mut stage.works);
        for operation in works.flat_map(|work| &mut work.operations) {
            operation.objects.shrink(of_objects);
            operation.containers.shrink(share / of_objects);
        }
    }
}

fn counted(selector: &Selector) -> u64 {
    let (min, max) = selector.bounds();
    max - min + 1
}

/// An element with its attributes.
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
}

impl Element {
    fn of(start: &BytesStart<'_>) -> Result<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = text(start.name().as_ref());
        let mut attributes = BTreeMap::new();
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| refused(&name, error.to_string()))?;
            let value = quick_xml::escape::unescape(&text(&attribute.value))
                .map_err(|error| refused(&name, error.to_string()))?
                .into_owned();
            attributes.insert(text(attribute.key.as_ref()), value);
        }
        Ok(Self { name, attributes })
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
    }

    fn number(&self, key: &str) -> Result<Option<u64>> {
        let number = |text: &str| {
            let wrong = || refused(&self.name, format!("{key} `{text}` is not a whole number"));
            text.parse().map_err(|_| wrong())
        };
        self.text(key).map(number).transpose()
    }

    /// A time, in s.
    fn seconds(&self, key: &str) -> Result<Option<u64>> {
        let seconds = self.number(key)?;
        if let Some(seconds) = seconds.filter(|seconds| *seconds > SECONDS_MAX) {
            return Err(refused(&self.name, format!("{key} of {seconds} s is more than a year")));
        }
        Ok(seconds)
    }

    /// What it says that is not done. Values stay out of it: some are secrets.
    fn ignored(&self) -> Vec<String> {
        let known: &[&str] = match self.name.as_str() {
            "workload" => &["name", "description"],
            "storage" => &["type", "config"],
            "workstage" => &["name", "closuredelay"],
            "work" => &WORK_ATTRIBUTES,
            "operation" => &["id", "type", "ratio", "config"],
            _ => return Vec::new(),
        };
        let is_known = |key: &String| known.contains(&key.as_str()) || key.starts_with("xml");
        // What is spelled out and says nothing changes nothing.
        let is_said = |key: &&String| self.text(key).is_some_and(|value| value != "0");
        let attributes = self.attributes.keys().filter(is_said).filter(|key| !is_known(key));
        let attributes = attributes.cloned();
        let config = if known.contains(&"config") { self.config() } else { BTreeMap::new() };
        let settings = config.into_iter().filter(|(key, value)| self.ignores(key, value));
        let place = self.text("name").or(self.text("type")).unwrap_or_default();
        let said = attributes.chain(settings.map(|(key, _)| key));
        said.map(|key| format!("{key} of {} {place} is ignored", self.name)).collect()
    }

    /// Whether a setting of its configuration changes nothing that should change.
    fn ignores(&self, key: &str, value: &str) -> bool {
        let is_on = value.eq_ignore_ascii_case("true");
        let is_done = match self.name.as_str() {
            "storage" if key == "path_style_access" => is_on,
            "storage" => matches!(key, "endpoint" | "accesskey" | "secretkey"),
            "work" if matches!(self.text("type"), None | Some("normal" | "delay")) => false,
            _ if matches!(key, "chunked" | "createContainer" | "hashCheck") => !is_on,
            _ => SETTINGS.contains(&key),
        };
        !is_done
    }

    fn name_or(&self, fallback: &str) -> String {
        self.text("name").unwrap_or(fallback).to_owned()
    }

    /// `k=v;k=v`.
    fn config(&self) -> BTreeMap<String, String> {
        let pairs = self.text("config").unwrap_or("").split(';');
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        let pairs = pairs.filter(|(_, value)| !value.trim().is_empty());
        pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
    }
}

/// What was read so far.
#[derive(Default)]
struct WorkReader {
    name: Option<String>,
    stages: Vec<Workstage>,
    stage: Option<Workstage>,
    work: Option<WorkSpec>,
    /// Settings of the workload, the stage and the work.
    storage: [BTreeMap<String, String>; 3],
    notes: Vec<String>,
}

impl WorkReader {
    fn start(&mut self, element: &Element) -> Result<()> {
        element.ignored().into_iter().for_each(|note| self.note(note));
        match element.name.as_str() {
            "workload" => self.name = Some(element.name_or("workload")),
            "workstage" => {
                self.stage = Some(Workstage {
                    name: element.name_or("stage"),
                    closure_delay_s: element.seconds("closuredelay")?.unwrap_or(0),
                    works: Vec::new(),
                });
            }
            "storage" => {
                if let Some(other) = element.text("type").filter(|kind| *kind != "s3") {
                    self.note(format!("storage of type {other} is called as S3"));
                }
                let level = usize::from(self.stage.is_some()) + usize::from(self.work.is_some());
                if let Some(settings) = self.storage.get_mut(level) {
                    settings.extend(element.config());
                }
            }
            "work" => self.work = Some(work(element)?),
            "operation" => {
                let work = self.work.as_mut();
                let work = work.ok_or_else(|| refused("operation", "it stands in no work"))?;
                if work.kind == WorkKind::Normal {
                    work.operations.extend(operation(element)?);
                }
            }
            // Accounts come from the command line; the others group.
            "auth" | "workflow" => {}
            other => return Err(refused(other, "COSBench has no such element")),
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<()> {
        match name {
            "work" => {
                let Some(mut work) = self.work.take() else { return Ok(()) };
                let levels = std::mem::take(&mut self.storage[2]);
                for settings in [&self.storage[0], &self.storage[1], &levels] {
                    work.storage.extend(settings.clone());
                }
                check(&mut work)?;
                let stage = self.stage.as_mut();
                let stage = stage.ok_or_else(|| refused("work", "it stands in no workstage"))?;
                stage.works.push(work);
            }
            "workstage" => {
                self.storage[1].clear();
                self.stages.extend(self.stage.take());
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps what is to be said, once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn whole(mut self) -> Result<Workload> {
        let name = self.name.take().ok_or_else(|| refused("workload", "there is none"))?;
        if self.stages.iter().all(|stage| stage.works.is_empty()) {
            return Err(refused(&name, "it has no work"));
        }
        Ok(Workload { name, stages: self.stages, notes: self.notes })
    }
}

/// That S3 has no buckets of such names.
fn no_bucket(operation: &OperationSpec) -> Option<String> {
    let (begin, end) = &operation.container_name;
    let is_allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '.' | '-');
    let name = format!("{begin}{}{end}", operation.containers.bounds().0);
    let note = || format!("S3 has no bucket `{name}`, a server may refuse it: give --cprefix");
    (!name.chars().all(is_allowed)).then(note)
}

fn work(element: &Element) -> Result<WorkSpec> {
    let kind = match element.text("type").unwrap_or("normal") {
        "init" => WorkKind::Init,
        "prepare" => WorkKind::Prepare,
        "normal" => WorkKind::Normal,
        "cleanup" => WorkKind::Cleanup,
        "dispose" => WorkKind::Dispose,
        "delay" => WorkKind::Delay,
        "mprepare" => {
            let why = "type `mprepare` is not COSBench's own: prepare in parts with type=\"prepare\" and partsize=16MB";
            return Err(refused("work", why));
        }
        other => return Err(refused("work", format!("unknown type `{other}`"))),
    };
    let workers = element.number("workers")?;
    let workers = match (kind, workers) {
        (WorkKind::Delay, None) => 1,
        (_, Some(workers)) => u32::try_from(workers).unwrap_or(u32::MAX),
        (_, None) => return Err(refused("work", "it says nothing of workers")),
    };
    if workers == 0 || workers > WORKERS_MAX {
        return Err(refused("work", format!("{workers} workers are not 1 to {WORKERS_MAX}")));
    }
    let is_normal = kind == WorkKind::Normal;
    let (runtime, operations, bytes) =
        (element.seconds("runtime")?, element.number("totalOps")?, element.number("totalBytes")?);
    let end = match (is_normal, runtime.unwrap_or(0), operations.unwrap_or(0), bytes.unwrap_or(0)) {
        (false, ..) => WorkEnd::Once,
        (true, 0, 0, 0) => {
            return Err(refused("work", "it never ends: give it runtime, totalOps or totalBytes"));
        }
        (true, runtime @ 1.., _, _) => WorkEnd::Runtime(runtime),
        (true, 0, operations @ 1.., _) => WorkEnd::Operations(operations),
        (true, 0, 0, bytes) => WorkEnd::Bytes(bytes),
    };
    let division = match element.text("division").unwrap_or("none") {
        "none" => Division::None,
        "container" => Division::Container,
        "object" => Division::Object,
        other => return Err(refused("work", format!("unknown division `{other}`"))),
    };
    Ok(WorkSpec {
        name: element.name_or(element.text("type").unwrap_or("work")),
        kind,
        workers,
        end,
        ramp_up_s: element.seconds("rampup")?.unwrap_or(0),
        ramp_down_s: element.seconds("rampdown")?.unwrap_or(0),
        failures_accepted: element.number("afr")?.unwrap_or(if is_normal { 200_000 } else { 0 }),
        division,
        storage: BTreeMap::new(),
        operations: special(kind, &element.config())?.into_iter().collect(),
    })
}

/// The operation of a work that takes none.
fn special(kind: WorkKind, config: &BTreeMap<String, String>) -> Result<Option<OperationSpec>> {
    let verb = match kind {
        WorkKind::Init => Verb::MakeContainer,
        WorkKind::Prepare => Verb::Write,
        WorkKind::Cleanup => Verb::Delete,
        WorkKind::Dispose => Verb::RemoveContainer,
        WorkKind::Normal | WorkKind::Delay => return Ok(None),
    };
    configured(verb, 100, config).map(Some)
}

fn operation(element: &Element) -> Result<Option<OperationSpec>> {
    let verb = match element.text("type").unwrap_or("") {
        "read" => Verb::Read,
        "write" => Verb::Write,
        "delete" => Verb::Delete,
        "list" => Verb::List,
        "mwrite" => {
            let why = "type `mwrite` is not COSBench's own: write in parts with type=\"write\" and partsize=16MB";
            return Err(refused("operation", why));
        }
        "head" | "restore" | "filewrite" | "localwrite" => {
            let kind = element.text("type").unwrap_or_default();
            let why = format!("type `{kind}` is not served: read, write, delete and list are");
            return Err(refused("operation", why));
        }
        other => return Err(refused("operation", format!("unknown type `{other}`"))),
    };
    let ratio = element.number("ratio")?.unwrap_or(100);
    // Those of no share are left out.
    if ratio == 0 { Ok(None) } else { configured(verb, ratio, &element.config()).map(Some) }
}

fn configured(verb: Verb, ratio: u64, config: &BTreeMap<String, String>) -> Result<OperationSpec> {
    let selector = |key: &str, fallback: &str| {
        let text = config.get(key).map_or(fallback, String::as_str);
        text.parse::<Selector>()
    };
    let text = |key: &str, fallback: &str| {
        config.get(key).map_or_else(|| fallback.to_owned(), String::clone)
    };
    let needs = |key: &str| {
        let is_there = config.contains_key(key);
        is_there.then_some(()).ok_or_else(|| refused("config", format!("it says nothing of {key}")))
    };
    needs("containers")?;
    let has_objects = matches!(verb, Verb::Read | Verb::Write | Verb::Delete);
    if has_objects {
        needs("objects")?;
    }
    if verb == Verb::Write {
        needs("sizes")?;
    }
    let content = config.get("content").filter(|text| !text.eq_ignore_ascii_case("random"));
    if let Some(content) = content {
        let why = format!("content `{content}` cannot be had: bodies are random");
        return Err(refused("config", why));
    }
    Ok(OperationSpec {
        verb,
        ratio,
        containers: selector("containers", "c(1)")?,
        objects: selector("objects", "c(1)")?,
        sizes: sizes(config.get("sizes").map_or("c(0)B", String::as_str))?,
        part_bytes: config.get("partsize").map(|text| part_bytes(text)).transpose()?,
        verifies: config.get("hashCheck").is_some_and(|text| text.eq_ignore_ascii_case("true")),
        container_name: (text("cprefix", "mycontainers_"), text("csuffix", "")),
        object_name: (text("oprefix", "myobjects_"), text("osuffix", "")),
    })
}

/// `16MB`.
fn part_bytes(text: &str) -> Result<u64> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)));
    let bytes =
        unit.and_then(|(number, bytes)| number.trim().parse::<u64>().ok()?.checked_mul(*bytes));
    bytes.filter(|bytes| *bytes >= PART_BYTES_MIN).ok_or_else(|| {
        refused(
            "partsize",
            format!("invalid size `{text}`: at least {PART_BYTES_MIN} bytes, such as 16MB"),
        )
    })
}

/// `c(64)KB`.
fn sizes(text: &str) -> Result<Selector> {
    let unit = UNITS.iter().find_map(|(unit, bytes)| {
        text.trim().strip_suffix(unit).map(|selector| (selector, *bytes))
    });
    let (selector, bytes) = unit.ok_or_else(|| {
        refused("sizes", format!("`{text}` ends with none of B, KB, MB, GB, KiB, MiB, GiB"))
    })?;
    let sizes = selector.parse::<Selector>()?.times(bytes);
    sizes.ok_or_else(|| refused("sizes", format!("`{text}` is too much")))
}

fn check(work: &mut WorkSpec) -> Result<()> {
    let sum: u64 = work.operations.iter().map(|operation| operation.ratio).sum();
    if work.kind != WorkKind::Delay && sum != 100 {
        return Err(refused(
            &work.name,
            format!("its operations' ratios are {sum} together, not 100"),
        ));
    }
    let counts = |selector: &Selector| {
        matches!(selector, Selector::Range { .. } | Selector::Sequential { .. })
    };
    let is_special = !matches!(work.kind, WorkKind::Normal | WorkKind::Delay);
    for operation in &work.operations {
        let objects = matches!(work.kind, WorkKind::Prepare | WorkKind::Cleanup);
        if is_special && (!counts(&operation.containers) || objects && !counts(&operation.objects))
        {
            return Err(refused(
                &work.name,
                "it does everything once: its selectors must be r or s",
            ));
        }
    }
    Ok(())
}

fn refused(place: &str, reason: impl Into<String>) -> Error {
    Error::Workload { place: place.to_owned(), reason: reason.into() }
}
