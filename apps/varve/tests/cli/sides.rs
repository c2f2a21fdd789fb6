//! Two daemons between which a volume moves, and what may be said of it at both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::between::{Asked, Fate, admin_socket, between, call};
use crate::daemon::{Daemon, Home};
use crate::rig::Run;

const FENCED: u32 = 108;

/// Two daemons, of which the first has a volume.
pub(crate) struct Sides {
    pub(crate) source: Home,
    pub(crate) target: Home,
    _daemons: [Daemon; 2],
}

impl Sides {
    pub(crate) fn new() -> Self {
        let (source, target) = (Home::new(), Home::new());
        let daemons = [source.serve(&[]), target.serve(&[])];
        source.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
        source.connect("v").write(4096, &[1; 4096]);
        Self { source, target, _daemons: daemons }
    }

    /// Runs the command by way of those in between.
    pub(crate) fn migrate(&self, source: Option<&str>, target: Option<&str>, more: &[&str]) -> Run {
        let more = [&["--volume", "v"], more].concat();
        Self::migrate_between([&self.source, &self.target], [source, target], &more)
    }

    /// Runs the command between any two.
    pub(crate) fn migrate_between(homes: [&Home; 2], by: [Option<&str>; 2], more: &[&str]) -> Run {
        let direct = homes.map(|home| format!("unix:{}", admin_socket(home).display()));
        let nbd = homes.map(|home| format!("unix:{}/nbd.sock", home.path().display()));
        let command = ["--addr", by[0].unwrap_or(&direct[0]), "pool", "migrate"];
        let to = ["--to", by[1].unwrap_or(&direct[1]), "--nbd", &nbd[0], "--to-nbd", &nbd[1]];
        homes[0].varve(&[&command, &to[..], more].concat())
    }

    /// By way of one in between the command and the target.
    pub(crate) fn to(&self, fate: impl FnMut(&Asked) -> Fate + Send + 'static) -> Run {
        self.migrate(None, Some(&between(&self.target, fate)), &[])
    }

    pub(crate) fn moves(home: &Home) -> Value {
        let (status, volume) = call(home, "GET", "/v1/volumes/v", &Value::Null);
        if status == 404 { json!("no volume") } else { volume["moves"].clone() }
    }

    /// The volume takes writes at the source, and the target has a part with which no run goes on by itself.
    #[track_caller]
    pub(crate) fn assert_given_back(&self) {
        assert_eq!(Self::moves(&self.source), Value::Null);
        self.source.connect("v").write(8192, &[2; 4096]);
        let part = Self::moves(&self.target);
        assert_eq!(part["state"], "arriving", "{part}");
        assert_eq!(part["remark"], "parked", "{part}");
    }

    #[track_caller]
    pub(crate) fn assert_fenced(&self) {
        assert_eq!(Self::moves(&self.source)["state"], "leaving");
        assert_eq!(self.source.connect("v").try_write(8192, &[9; 4096]), FENCED);
    }

    /// The volume is at the target alone, and holds this in its second and third block.
    #[track_caller]
    pub(crate) fn assert_there(&self, blocks: [u8; 2]) {
        assert_eq!(Self::moves(&self.source), "no volume");
        assert_eq!(Self::moves(&self.target), Value::Null);
        let expected = blocks.map(|value| [value; 4096]).concat();
        assert_eq!(self.target.connect("v").read(4096, 8192), expected);
    }

    /// Leaves the volume fenced and all of it sent: the last step, which is returned, did not get to the target, nor
    /// did anything later.
    pub(crate) fn leave_before_the_last_step(&self) -> Value {
        let last = Arc::new(Mutex::new(Value::Null));
        let (seen, gone) = (Arc::clone(&last), AtomicBool::new(false));
        let failed = self.to(move |asked| {
            if asked.is_last_step() {
                *seen.lock().unwrap() = asked.body.clone();
                gone.store(true, Ordering::SeqCst);
            }
            if gone.load(Ordering::SeqCst) { Fate::Lost } else { Fate::Pass }
        });
        let said = failed.refused(1);
        assert!(said.contains("volume v refuses writes at the source still"), "{said}");
        assert!(said.contains("`varve volume clone v NAME`"), "{said}");
        last.lock().unwrap().clone()
    }
}
