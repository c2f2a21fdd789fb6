//! Goal: what a volume says at the target once it has arrived decides what becomes of the source's, whatever else bears
//! its name, and is gone once the move is over. Method: two daemons, and somebody in between who loses what ends the
//! move, or acts as somebody else meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::between::{Asked, Fate, admin_socket, between, call, call_at, expects};
use crate::daemon::Home;
use crate::sides::Sides;

/// The last step and everything after it: the target has the volume in use, and nobody was told.
fn silent_from_the_last_step() -> impl FnMut(&Asked) -> Fate + Send + 'static {
    let gone = AtomicBool::new(false);
    move |asked| {
        if asked.is_last_step() {
            gone.store(true, Ordering::SeqCst);
            return Fate::AnswerLost;
        }
        if gone.load(Ordering::SeqCst) { Fate::Lost } else { Fate::Pass }
    }
}

impl Sides {
    /// The target's volume is in use, and the source's is fenced.
    fn leave_arrived(&self) {
        let said = self.to(silent_from_the_last_step()).refused(1);
        assert!(said.contains("volume v refuses writes at the source still"), "{said}");
        self.assert_fenced();
        assert_eq!(Self::moves(&self.target)["state"], "arrived");
    }

    /// The target's volume is in use, and the source's out of use, and there still.
    fn leave_left(&self, more: &[&str]) {
        let is_deletion = |asked: &Asked| asked.line.starts_with("DELETE /v1/volumes/v?");
        let source =
            between(
                &self.source,
                move |asked| {
                    if is_deletion(asked) { Fate::Lost } else { Fate::Pass }
                },
            );
        self.migrate(Some(&source), None, more).refused(1);
        assert_eq!(Self::moves(&self.source)["state"], "left");
        assert_eq!(Self::moves(&self.target)["state"], "arrived");
    }

    /// Deletes the target's volume as only somebody does who says what it is, and makes another.
    fn remake_target(&self) {
        let said = self.target.varve(&["volume", "delete", "v", "--snapshots"]).refused(1);
        assert!(said.contains("its source has it still: finish the migration"), "{said}");
        let expects = expects(&Self::moves(&self.target));
        let path = format!("/v1/volumes/v?snapshots=true&{expects}");
        assert_eq!(call(&self.target, "DELETE", &path, &Value::Null).0, 204);
        make_another(&self.target);
    }

    /// What somebody else made at the target is as it was.
    #[track_caller]
    fn assert_another(&self) {
        assert_eq!(Self::moves(&self.target), Value::Null);
        assert_eq!(self.target.connect("v").read(0, 4096), [5; 4096]);
    }

    #[track_caller]
    fn finish(&self, more: &[&str]) -> String {
        let run = self.migrate(None, None, more);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    }
}

fn make_another(home: &Home) {
    home.varve(&["volume", "create", "v", "--size", "100MiB"]).ok();
    home.connect("v").write(0, &[5; 4096]);
}

#[test]
fn what_arrived_and_was_not_told_is_ended_by_the_next_run() {
    let sides = Sides::new();
    sides.leave_arrived();
    sides.target.connect("v").write(8192, &[7; 4096]);
    let said = sides.migrate(None, None, &["--cancel"]).refused(1);
    assert!(said.contains("in use at the target already"), "{said}");
    assert!(sides.finish(&["--status"]).contains("is in use, and arrived from"));
    assert!(sides.finish(&[]).contains("had arrived already"));
    sides.assert_there([1, 7]);
}

#[test]
fn a_volume_that_was_deleted_and_made_anew_is_not_the_one_that_arrived() {
    let sides = Sides::new();
    sides.leave_left(&[]);
    sides.remake_target();
    for more in [&[][..], &["--keep-source"]] {
        let said = sides.migrate(None, None, more).refused(1);
        assert!(said.contains("none that says that it arrived from there"), "{said}");
    }
    assert_eq!(Sides::moves(&sides.source)["state"], "left");
    sides.assert_another();
    // The same while the source is fenced: it may be given back.
    let sides = Sides::new();
    sides.leave_arrived();
    sides.remake_target();
    let said = sides.migrate(None, None, &[]).refused(1);
    assert!(said.contains("the target has another volume v"), "{said}");
    sides.assert_fenced();
    assert!(sides.finish(&["--cancel"]).contains("in use at the source"));
    sides.source.connect("v").write(8192, &[2; 4096]);
    sides.assert_another();
}

/// The source's was deleted before it was told, and made anew.
#[test]
fn a_mark_with_another_snapshot_does_not_count() {
    let sides = Sides::new();
    sides.leave_arrived();
    let (fence, mark) = (Sides::moves(&sides.source), Sides::moves(&sides.target));
    sides.source.varve(&["volume", "delete", "v", "--snapshots"]).ok();
    make_another(&sides.source);
    sides.source.varve(&["volume", "snapshot", "create", "v@migrate-0000000000001"]).ok();
    let step = json!({ "after": fence });
    assert_eq!(call(&sides.source, "POST", "/v1/volumes/v/move", &step).0, 200);
    let said = sides.migrate(None, None, &[]).refused(1);
    assert!(said.contains("the target has another volume v"), "{said}");
    sides.assert_fenced();
    // Where the source was restored from before it left, what is at the target is newer.
    let said = sides.migrate(None, None, &["--cancel"]).refused(1);
    assert!(said.contains("with a snapshot that the source's does not have"), "{said}");
    sides.assert_fenced();
    assert_eq!(Sides::moves(&sides.target), mark);
}

/// It has the name and nothing else of the source's.
#[test]
fn a_volume_that_somebody_makes_at_the_target_does_not_keep_the_source_fenced() {
    let sides = Sides::new();
    let (target, mut made) = (admin_socket(&sides.target), false);
    let by = between(&sides.source, move |asked| {
        // Behind the fence, before the target is looked at again.
        if asked.is_fence() && !std::mem::replace(&mut made, true) {
            // Who filled the part may be connected for a moment.
            let delete =
                || call_at(&target, "DELETE", "/v1/volumes/v?snapshots=true", &Value::Null);
            while delete().0 != 204 {}
            let spec = json!({"name": "v", "size_bytes": 1 << 20});
            assert_eq!(call_at(&target, "POST", "/v1/volumes", &spec).0, 201);
        }
        Fate::Pass
    });
    let said = sides.migrate(Some(&by), None, &[]).refused(1);
    assert!(said.contains("the target has another volume v"), "{said}");
    assert_eq!(Sides::moves(&sides.source), Value::Null);
    sides.source.connect("v").write(8192, &[2; 4096]);
    assert_eq!(Sides::moves(&sides.target), Value::Null);
}

/// It came from an archive. Nobody can tell whether it was used since.
#[test]
fn a_volume_that_has_the_last_snapshot_and_no_mark_keeps_the_source_fenced() {
    let sides = Sides::new();
    sides.leave_before_the_last_step();
    sides.target.varve(&["volume", "delete", "v", "--snapshots"]).ok();
    let all = sides.source.varve(&["volume", "snapshot", "list", "v", "--json"]).json();
    let last = all["snapshots"].as_array().unwrap().last().unwrap()["name"].as_str().unwrap();
    let archive = sides.target.path().join("v.arc");
    let archive = archive.to_str().unwrap();
    sides.source.varve(&["volume", "export", last, archive]);
    sides.target.varve(&["volume", "import", archive, "v"]);
    assert_eq!(Sides::moves(&sides.target), Value::Null);
    let said = sides.migrate(None, None, &["--cancel"]).refused(1);
    assert!(said.contains("did not arrive from there"), "{said}");
    sides.assert_fenced();
    sides.target.varve(&["volume", "delete", "v", "--snapshots"]).ok();
    sides.finish(&["--cancel"]);
    sides.source.connect("v").write(8192, &[2; 4096]);
}

#[test]
fn a_volume_moves_on_once_its_source_has_none() {
    let (sides, third) = (Sides::new(), Home::new());
    let _daemon = third.serve(&[]);
    sides.leave_left(&[]);
    let on = || Sides::migrate_between([&sides.target, &third], [None; 2], &["--volume", "v"]);
    let said = on().refused(1);
    assert!(said.contains("moves otherwise"), "{said}");
    let back =
        Sides::migrate_between([&sides.target, &sides.source], [None; 2], &["--volume", "v"]);
    assert!(back.refused(1).contains("the pool that it comes from has it still"));
    sides.finish(&[]);
    sides.assert_there([1, 0]);
    let run = on();
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(
        (Sides::moves(&sides.target), Sides::moves(&third)),
        (json!("no volume"), Value::Null)
    );
    assert_eq!(third.connect("v").read(4096, 4096), [1; 4096]);
}

/// The daemon died within the deletion, for one.
#[test]
fn a_volume_that_is_half_deleted_at_the_source_goes() {
    let sides = Sides::new();
    sides.leave_left(&[]);
    let all = sides.source.varve(&["volume", "snapshot", "list", "v", "--json"]).json();
    for snapshot in all["snapshots"].as_array().unwrap() {
        sides
            .source
            .varve(&["volume", "snapshot", "delete", snapshot["name"].as_str().unwrap()])
            .ok();
    }
    sides.finish(&[]);
    sides.assert_there([1, 0]);
}

#[test]
fn a_mark_whose_removal_is_not_answered_is_removed() {
    let is_removal = |asked: &Asked| asked.is_step() && asked.body["before"]["state"] == "arrived";
    let sides = Sides::new();
    let run = sides.to(move |asked| if is_removal(asked) { Fate::AnswerLost } else { Fate::Pass });
    assert_eq!(run.code, 0, "{}", run.stderr);
    sides.assert_there([1, 0]);
    let sides = Sides::new();
    sides.to(move |asked| if is_removal(asked) { Fate::Lost } else { Fate::Pass }).refused(1);
    assert_eq!(Sides::moves(&sides.source), "no volume");
    assert_eq!(Sides::moves(&sides.target)["state"], "arrived");
    // All volumes: the source has none by that name.
    let run = Sides::migrate_between([&sides.source, &sides.target], [None; 2], &[]);
    assert!(run.stdout.contains("had arrived already"), "{} {}", run.stdout, run.stderr);
    sides.assert_there([1, 0]);
}

#[test]
fn what_is_kept_counts_as_moved() {
    let sides = Sides::new();
    sides.leave_left(&[]);
    sides.finish(&["--keep-source"]); // It was not to be kept before.
    let kept = Sides::moves(&sides.source);
    assert_eq!(kept["remark"], "kept", "{kept}");
    assert_eq!(Sides::moves(&sides.target), Value::Null);
    for more in [&[][..], &["--status"], &["--cancel"]] {
        let run = Sides::migrate_between([&sides.source, &sides.target], [None; 2], more);
        assert_eq!((run.code, run.stdout.as_str()), (0, "nothing to move\n"), "{}", run.stderr);
    }
    sides.migrate(None, None, &[]).refused(1);
    assert_eq!(Sides::moves(&sides.source), kept);
    sides.target.varve(&["volume", "delete", "v"]).ok();
}

/// The command died between the two. What is kept is not deleted by a run that was not told to keep it.
#[test]
fn what_is_kept_stays_when_the_mark_is_removed_later() {
    let sides = Sides::new();
    let is_removal = |asked: &Asked| asked.is_step() && asked.body["before"]["state"] == "arrived";
    let by = between(
        &sides.target,
        move |asked| {
            if is_removal(asked) { Fate::Lost } else { Fate::Pass }
        },
    );
    sides.migrate(None, Some(&by), &["--keep-source"]).refused(1);
    assert_eq!(Sides::moves(&sides.target)["state"], "arrived");
    let run = Sides::migrate_between([&sides.source, &sides.target], [None; 2], &[]);
    assert!(run.stdout.contains("the source keeps it out of use"), "{} {}", run.stdout, run.stderr);
    assert_eq!(Sides::moves(&sides.target), Value::Null);
    assert_eq!(Sides::moves(&sides.source)["state"], "left");
}

/// Snapshots by the names of a migration's at the target may be another migration's.
#[test]
fn snapshots_of_what_did_not_arrive_from_here_stay() {
    let sides = Sides::new();
    sides.source.varve(&["volume", "delete", "v"]).ok();
    make_another(&sides.target);
    sides.target.varve(&["volume", "snapshot", "create", "v@migrate-0000000000001"]).ok();
    let said = sides.migrate(None, None, &[]).refused(1);
    assert!(said.contains("the source has no volume v"), "{said}");
    let all = sides.target.varve(&["volume", "snapshot", "list", "v", "--json"]).json();
    assert_eq!(all["snapshots"].as_array().unwrap().len(), 1, "{all}");
}

/// What would be sent behind the fence is not known any more, and may be much.
#[test]
fn a_volume_that_changed_since_it_was_sent_is_sent_again_before_the_fence() {
    let sides = Sides::new();
    sides.source.varve(&["volume", "snapshot", "create", "v@before"]).ok();
    sides.source.connect("v").write(4096, &[3; 4096]);
    let (socket, fences) = (admin_socket(&sides.source), Arc::new(AtomicU32::new(0)));
    let seen = Arc::clone(&fences);
    let by = between(&sides.source, move |asked| {
        if asked.is_fence() {
            let act = match seen.fetch_add(1, Ordering::SeqCst) {
                0 => ("/v1/snapshots", json!({"names": ["v@late"]})),
                1 => ("/v1/volumes/v/rollback", json!({"snapshot": "before"})),
                _ => return Fate::Pass,
            };
            let (status, body) = call_at(&socket, "POST", act.0, &act.1);
            assert!(status < 300, "{body}");
        }
        Fate::Pass
    });
    let run = sides.migrate(Some(&by), None, &[]);
    assert_eq!((run.code, fences.load(Ordering::SeqCst)), (0, 3), "{}", run.stderr);
    sides.assert_there([1, 0]);
    assert_eq!(sides.target.connect("v@late").read(4096, 4096), [3; 4096]);
}

#[test]
fn bounds_of_a_run_that_failed_are_not_in_the_way() {
    let sides = Sides::new();
    sides.source.varve(&["volume", "set", "v", "--quota", "64KiB"]).ok();
    let lost = |asked: &Asked| if asked.is_last_step() { Fate::Lost } else { Fate::Pass };
    sides.to(lost).refused(1);
    sides.assert_given_back();
    sides.source.varve(&["volume", "set", "v", "--quota", "1MiB"]).ok();
    sides.source.connect("v").write(65536, &[4; 512 << 10]);
    sides.finish(&[]);
    sides.assert_there([1, 2]);
    let (_, there) = call(&sides.target, "GET", "/v1/volumes/v", &Value::Null);
    assert_eq!(there["quota_bytes"], 1 << 20);
}

#[test]
fn what_there_is_no_room_for_is_refused_before_writers_are() {
    let sides = Sides::new();
    for number in 0..32 {
        // Until no shard has so much left.
        let name = format!("big{number}");
        sides.target.varve(&["volume", "create", &name, "--size", "8MiB", "--reservation", "full"]);
    }
    sides.source.varve(&["volume", "resize", "v", "--size", "30MiB", "--shrink"]).ok();
    sides.source.varve(&["volume", "set", "v", "--reservation", "full"]).ok();
    let fenced = Arc::new(Mutex::new(false));
    let seen = Arc::clone(&fenced);
    let by = between(&sides.source, move |asked| {
        *seen.lock().unwrap() |= asked.is_fence();
        Fate::Pass
    });
    let said = sides.migrate(Some(&by), None, &[]).refused(1);
    assert!(said.contains("cannot reserve"), "{said}");
    assert!(!*fenced.lock().unwrap(), "{said}");
    sides.source.connect("v").write(8192, &[2; 4096]);
}
