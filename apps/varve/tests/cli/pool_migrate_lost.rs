//! Goal: whatever a daemon does not get or does not answer, and whatever another command does meanwhile, a volume takes
//! writes in one pool at a time, and what was acknowledged is there. Method: two daemons, and somebody in between who
//! loses a request or an answer of one step of `varve pool migrate`, or acts as another command right before it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::between::{Asked, Fate, admin_socket, between, call, call_at};
use crate::nbd::Client;
use crate::sides::Sides;

#[test]
fn a_last_step_that_is_not_answered_is_found_to_be_done() {
    let sides = Sides::new();
    let lost = |asked: &Asked| if asked.is_last_step() { Fate::AnswerLost } else { Fate::Pass };
    let run = sides.to(lost);
    assert_eq!(run.code, 0, "{}", run.stderr);
    sides.assert_there([1, 0]);
}

#[test]
fn a_last_step_that_comes_late_does_nothing_once_the_source_is_given_back() {
    let sides = Sides::new();
    let late = Arc::new(Mutex::new(Value::Null));
    let seen = Arc::clone(&late);
    sides
        .to(move |asked| {
            if !asked.is_last_step() {
                return Fate::Pass;
            }
            *seen.lock().unwrap() = asked.body.clone();
            Fate::Lost
        })
        .refused(1);
    sides.assert_given_back();
    let late = late.lock().unwrap().clone();
    let (status, body) = call(&sides.target, "POST", "/v1/volumes/v/move", &late);
    assert_eq!((status, &body["kind"]), (409, &"conflict".into()), "{body}");
    let again = sides.migrate(None, None, &[]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    sides.assert_there([1, 2]);
}

/// Before its own last step, which it never sent, a run could know that the target's does not get there; another that
/// looks at the two pools could not. So it asks the target in any case.
#[test]
fn the_source_stays_fenced_while_the_target_cannot_be_asked() {
    let sides = Sides::new();
    let is_gone = Arc::new(AtomicBool::new(false));
    let (fenced, gone) = (Arc::clone(&is_gone), is_gone);
    let source = between(&sides.source, move |asked| {
        fenced.fetch_or(asked.is_fence(), Ordering::SeqCst);
        Fate::Pass
    });
    let target =
        between(
            &sides.target,
            move |_| {
                if gone.load(Ordering::SeqCst) { Fate::Lost } else { Fate::Pass }
            },
        );
    let said = sides.migrate(Some(&source), Some(&target), &[]).refused(1);
    assert!(said.contains("volume v refuses writes at the source still"), "{said}");
    sides.assert_fenced();
    sides.source.varve(&["volume", "clone", "v", "w"]).ok();
    sides.source.connect("w").write(8192, &[3; 4096]);
    // The same of --cancel: it may look at the target, but not take its part.
    let target =
        between(&sides.target, |asked| if asked.is_step() { Fate::Lost } else { Fate::Pass });
    let said = sides.migrate(None, Some(&target), &["--cancel"]).refused(1);
    assert!(said.contains("volume v refuses writes at the source still"), "{said}");
    sides.assert_fenced();
    let cancelled = sides.migrate(None, None, &["--cancel"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    assert_eq!(Sides::moves(&sides.target), "no volume");
    sides.source.connect("v").write(8192, &[2; 4096]);
}

#[test]
fn a_fence_that_is_not_answered_is_taken_back() {
    for fate in [Fate::AnswerLost, Fate::Lost] {
        let sides = Sides::new();
        let lost = move |asked: &Asked| if asked.is_fence() { fate } else { Fate::Pass };
        let source = between(&sides.source, lost);
        let said = sides.migrate(Some(&source), None, &[]).refused(1);
        assert_eq!(
            said.contains("takes writes at the source, unless"),
            fate == Fate::Lost,
            "{said}"
        );
        assert_eq!(Sides::moves(&sides.source), Value::Null, "{said}");
        sides.source.connect("v").write(8192, &[2; 4096]);
        let again = sides.migrate(None, None, &[]);
        assert_eq!(again.code, 0, "{}", again.stderr);
        sides.assert_there([1, 2]);
    }
}

/// The first run's volume is fenced and whole at the target. While a second one takes it over, and before it has the
/// fence, a third lets clients use the target's.
#[test]
fn what_arrived_before_the_fence_was_taken_over_stays_in_use() {
    let sides = Sides::new();
    let last = sides.leave_before_the_last_step()["last"].clone();
    sides.assert_fenced();
    let nbd = sides.target.path().join("nbd.sock");
    let target = sides.target.path().to_owned();
    let mut acts = Some(move || {
        let socket = target.join("varve-data/admin.sock");
        let step = |body: Value| {
            let (status, answer) = call_at(&socket, "POST", "/v1/volumes/v/move", &body);
            assert_eq!(status, 200, "{answer}");
        };
        let (_, seen) = call_at(&socket, "GET", "/v1/volumes/v", &Value::Null);
        let mut third = seen["moves"].clone();
        third["run"] = json!("3".repeat(32));
        step(json!({"before": seen["moves"], "after": third}));
        step(json!({"before": third, "last": last}));
        Client::open(&nbd, "v").write(8192, &[7; 4096]);
    });
    let source = between(&sides.source, move |asked| {
        if asked.is_fence()
            && let Some(act) = acts.take()
        {
            act();
        }
        Fate::Pass
    });
    let run = sides.migrate(Some(&source), None, &[]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    sides.assert_there([1, 7]);
}

/// Another command takes the fence over right before a run would let the target's be used.
#[test]
fn a_run_that_lost_the_fence_does_not_let_the_target_be_used() {
    let sides = Sides::new();
    let source = sides.source.path().join("varve-data/admin.sock");
    let mut done = false;
    let target = between(&sides.target, move |asked| {
        // The settings are the last that is sent before.
        if asked.line.starts_with("PATCH /v1/volumes/") && !done {
            done = true;
            let (_, seen) = call_at(&source, "GET", "/v1/volumes/v", &Value::Null);
            let body = json!({"before": seen["moves"]});
            let step = call_at(&source, "POST", "/v1/volumes/v/move", &body);
            assert_eq!(step.0, 200, "{}", step.1);
        }
        Fate::Pass
    });
    let said = sides.migrate(None, Some(&target), &[]).refused(1);
    assert!(said.contains("another command took volume v over"), "{said}");
    sides.assert_given_back();
}

#[test]
fn what_left_is_kept_until_it_is_in_use_at_the_target() {
    let sides = Sides::new();
    let kept = sides.migrate(None, None, &["--keep-source"]);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    sides.target.varve(&["volume", "delete", "v"]).ok();
    for more in [&[][..], &["--keep-source"]] {
        let said = sides.migrate(None, None, more).refused(1);
        assert!(
            said.contains(
                "has none that says that it arrived from there: what the source keeps stays"
            ),
            "{said}"
        );
    }
    assert_eq!(Sides::moves(&sides.source)["state"], "left");
    let all = sides.source.varve(&["volume", "snapshot", "list", "v", "--json"]).json();
    let last = all["snapshots"][0]["name"].as_str().unwrap().to_owned();
    sides.source.varve(&["volume", "clone", &last, "w"]).ok();
    assert_eq!(sides.source.connect("w").read(4096, 4096), [1; 4096]);
}

#[test]
fn a_snapshot_that_was_taken_anew_under_its_name_goes_over() {
    let sides = Sides::new();
    sides.source.varve(&["volume", "snapshot", "create", "v@s"]).ok();
    sides.source.varve(&["volume", "snapshot", "protect", "v@s"]).ok();
    let lost = |asked: &Asked| if asked.is_last_step() { Fate::Lost } else { Fate::Pass };
    sides.to(lost).refused(1);
    sides.assert_given_back();
    sides.source.varve(&["volume", "snapshot", "unprotect", "v@s"]).ok();
    sides.source.varve(&["volume", "snapshot", "delete", "v@s"]).ok();
    sides.source.varve(&["volume", "snapshot", "create", "v@s"]).ok();
    let again = sides.migrate(None, None, &[]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    sides.assert_there([1, 2]);
    assert_eq!(sides.target.connect("v@s").read(8192, 4096), [2; 4096]);
}

#[test]
fn a_part_of_a_volume_that_the_source_lost_is_given_up() {
    let sides = Sides::new();
    let lost = |asked: &Asked| if asked.is_last_step() { Fate::Lost } else { Fate::Pass };
    sides.to(lost).refused(1);
    sides.source.varve(&["volume", "delete", "v", "--snapshots"]).ok();
    let said = sides.migrate(None, None, &[]).refused(1);
    assert!(said.contains("the source has no volume v"), "{said}");
    let cancelled = sides.migrate(None, None, &["--cancel"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.stderr);
    assert!(cancelled.stdout.contains("the source does not have it"), "{}", cancelled.stdout);
    assert_eq!(Sides::moves(&sides.target), "no volume");
}

/// Between the look at the volume and the fence, somebody begins to move it to a third pool, whose daemon is not asked
/// here.
#[test]
fn a_fence_of_a_move_to_another_pool_is_not_taken_over() {
    let sides = Sides::new();
    let leaving = json!({
        "state": "leaving",
        "pool": "33333333-3333-3333-3333-333333333333",
        "address": "unix:/third",
        "run": "9".repeat(32),
    });
    let (socket, step) = (admin_socket(&sides.source), json!({ "after": leaving.clone() }));
    let mut looks = 0;
    let source = between(&sides.source, move |asked: &Asked| {
        let is_look = asked.line == "GET /v1/volumes/v";
        looks += u32::from(is_look);
        if is_look && looks == 2 {
            let (status, body) = call_at(&socket, "POST", "/v1/volumes/v/move", &step);
            assert_eq!(status, 200, "{body}");
        }
        Fate::Pass
    });
    let said = sides.migrate(Some(&source), None, &[]).refused(1);
    assert!(said.contains("has begun to move otherwise meanwhile: pool 33333333-"), "{said}");
    assert_eq!(Sides::moves(&sides.source), leaving);
}

/// When the command asks for a snapshot of what it sent, that was compared: the target was asked what it holds before.
#[test]
fn nothing_has_an_identity_that_was_not_compared() {
    let sides = Sides::new();
    let mut compared = false;
    let run = sides.to(move |asked: &Asked| {
        compared |= asked.line.starts_with("GET /v1/extents/v?");
        if asked.line.ends_with("/received") {
            assert!(std::mem::take(&mut compared), "it would count as compared");
        }
        Fate::Pass
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    sides.assert_there([1, 0]);
}
