//! Goal: `varve pool migrate` moves buckets with everything that clients see of them, whatever is lost or done
//! meanwhile; a bucket takes changes in one pool at a time, and what was acknowledged is there. Method: two daemons
//! with one `s3.key`, a client of S3, and somebody in between who loses a request or an answer, or changes the bucket
//! right before one.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::between::{Asked, Fate, admin_socket, between, call, expects};
use crate::daemon::{Daemon, Home};
use crate::rig::Run;
use crate::s3::{S3, bucket};

/// Two daemons with the same key, and a user of the first.
struct Pools {
    source: Home,
    target: Home,
    /// The user at the source; the target knows it once a bucket went there.
    s3: S3,
    daemons: [Option<Daemon>; 2],
}

impl Pools {
    /// With a bucket `box` that has no versions.
    fn new() -> Self {
        let (source, target) = (Home::new(), Home::new());
        let one = source.serve(&["--s3", "127.0.0.1:0"]);
        let [from, to] = [&source, &target].map(|home| home.path().join("varve-data/s3.key"));
        std::fs::copy(from, to).unwrap();
        let other = target.serve(&["--s3", "127.0.0.1:0"]);
        let s3 = S3::of_new_user(&source, "ann");
        s3.put("/box", "", b"").ok();
        Self { source, target, s3, daemons: [Some(one), Some(other)] }
    }

    /// The user at the target.
    fn there(&self) -> S3 {
        self.s3.at(&self.target)
    }

    fn migrate(&self, by: [Option<&str>; 2], more: &[&str]) -> Run {
        self.migrate_between(
            [&self.source, &self.target],
            by,
            &[&["--bucket", "box"], more].concat(),
        )
    }

    fn migrate_between(&self, homes: [&Home; 2], by: [Option<&str>; 2], more: &[&str]) -> Run {
        let direct = homes.map(|home| format!("unix:{}", admin_socket(home).display()));
        let command = ["--addr", by[0].unwrap_or(&direct[0]), "pool", "migrate"];
        let to = ["--to", by[1].unwrap_or(&direct[1])];
        homes[0].varve(&[&command, &to[..], more].concat())
    }

    /// By way of somebody in between the command and the target.
    fn to(&self, fate: impl FnMut(&Asked) -> Fate + Send + 'static) -> Run {
        self.migrate([None, Some(&between(&self.target, fate))], &[])
    }

    /// By way of somebody in between the command and the source.
    fn from(&self, fate: impl FnMut(&Asked) -> Fate + Send + 'static) -> Run {
        self.migrate([Some(&between(&self.source, fate)), None], &[])
    }

    #[track_caller]
    fn moved(&self) -> String {
        let run = self.migrate([None, None], &[]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    }

    /// The bucket is at the target alone, and used there.
    #[track_caller]
    fn assert_there(&self) {
        assert_eq!(bucket(&self.source, "box"), "no bucket");
        assert_eq!(bucket(&self.target, "box")["moves"], Value::Null);
        self.there().put("/box/used", "", b"there").ok();
        assert_eq!(self.s3.get("/box/used", "").status, 404, "it is not here any more");
    }

    /// The bucket is used at the source, and the target has a part with which no run goes on by itself.
    #[track_caller]
    fn assert_given_back(&self) {
        assert_eq!(bucket(&self.source, "box")["moves"], Value::Null);
        self.s3.put("/box/used", "", b"here").ok();
        let part = bucket(&self.target, "box")["moves"].clone();
        assert_eq!(part["state"], "arriving", "{part}");
        assert_eq!(part["remark"], "parked", "{part}");
    }

    /// Nothing changes in the bucket at either, and it is read at the source.
    #[track_caller]
    fn assert_fenced(&self) {
        assert_eq!(bucket(&self.source, "box")["moves"]["state"], "leaving");
        let refused = self.s3.put("/box/refused", "", b"x");
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert!(refused.text().contains("<Code>ServiceUnavailable</Code>"), "{}", refused.text());
        assert_eq!(self.s3.ask("DELETE", "/box/k", "", &[], b"").status, 503);
        assert_eq!(self.s3.put("/box", "versioning", VERSIONED).status, 503);
        assert_eq!(self.s3.get("/box/refused", "").status, 404, "it is read");
    }
}

const VERSIONED: &[u8] = b"<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Status>Enabled</Status></VersioningConfiguration>";

const CORS: &[u8] = b"<CORSConfiguration><CORSRule><AllowedOrigin>http://a.example</AllowedOrigin><AllowedMethod>GET</AllowedMethod></CORSRule></CORSConfiguration>";

const TAGS: &[u8] =
    b"<Tagging><TagSet><Tag><Key>kind</Key><Value>of blue</Value></Tag></TagSet></Tagging>";

const RETENTION: &[u8] = b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2060-01-01T00:00:00Z</RetainUntilDate></Retention>";

const POLICY: &[u8] = br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::locked/open*"}]}"#;

/// A bucket `locked` with one of everything.
fn fill(s3: &S3) {
    s3.ask("PUT", "/locked", "", &[("x-amz-bucket-object-lock-enabled", "true")], b"").ok();
    s3.put("/locked", "policy", POLICY).ok();
    s3.put("/locked", "cors", CORS).ok();
    for body in [&b"one"[..], b"two", &[3; 100_000], b""] {
        s3.put("/locked/versions", "", body).ok();
    }
    s3.ask("DELETE", "/locked/versions", "", &[], b"").ok();
    s3.put("/locked/versions", "", b"after the marker").ok();
    s3.ask("DELETE", "/locked/deleted", "", &[], b"").ok();
    s3.upload("/locked/parts", &[(5 << 20, 1), (6 << 20, 2), (1, 3)], true);
    let sealed = ("x-amz-server-side-encryption", "AES256");
    s3.ask("PUT", "/locked/sealed", "", &[sealed, ("x-amz-meta-a", "box")], &[7; 70_000]).ok();
    s3.ask("PUT", "/locked/sealed%20small", "", &[sealed], b"sealed").ok();
    s3.ask("PUT", "/locked/sealed%20edge", "", &[sealed], &[8; 64 << 10]).ok();
    s3.put("/locked/tagged", "", b"tagged").ok();
    s3.put("/locked/tagged", "tagging", TAGS).ok();
    s3.put("/locked/kept", "", b"kept").ok();
    s3.put("/locked/kept", "retention", RETENTION).ok();
    let headers = [("content-type", "text/x"), ("cache-control", "no-store")];
    s3.ask("PUT", "/locked/%C3%BC%26%3C%25", "", &headers, b"headers").ok();
}

#[test]
fn a_bucket_goes_over_as_it_is_and_comes_back() {
    let pools = Pools::new();
    let s3 = &pools.s3;
    fill(s3);
    for number in 0..1200 {
        s3.put(&format!("/box/many/{number:04}"), "", format!("body {number}").as_bytes()).ok();
    }
    let before = ["box", "locked"].map(|name| s3.seen(name));
    for what in [
        "<DeleteMarker>",
        "GOVERNANCE",
        "of blue",
        "a.example",
        "locked/open*",
        "part 2: 206 ",
        "x-amz-mp-parts-count: 3",
        "x-amz-server-side-encryption: AES256",
        "cache-control: no-store",
    ] {
        assert!(before[1].contains(what), "{what} is in {}", before[1]);
    }
    let planned = pools.migrate_between(
        [&pools.source, &pools.target],
        [None, None],
        &["--bucket", "locked", "--dry-run"],
    );
    assert!(
        planned.stdout.starts_with("bucket locked: ") && planned.stdout.contains(" objects"),
        "{}",
        planned.stdout
    );
    let homes = [&pools.source, &pools.target];
    let both = ["--bucket", "box", "--bucket", "locked"];
    let json = pools.migrate_between(homes, [None, None], &[&both[..], &["--json"]].concat());
    assert_eq!(json.code, 0, "{}", json.stderr);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    for moved in json["buckets"].as_array().unwrap() {
        assert_eq!(moved["what"], "moved", "{json}");
        assert!(moved["refused_ms"].is_u64() && moved["sent_bytes"].as_u64() > Some(0), "{json}");
    }
    assert!(json["notes"][0].as_str().unwrap().contains("ann"), "{json}");
    let there = pools.there();
    assert_eq!(["box", "locked"].map(|name| there.seen(name)), before);
    assert_eq!(bucket(&pools.source, "locked"), "no bucket");
    // It is locked still, and what is new is in its place.
    let listed = there.get("/locked", "prefix=kept&versions").text();
    let version = listed.split("<VersionId>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let gone = there.ask("DELETE", "/locked/kept", &format!("versionId={version}"), &[], b"");
    assert_eq!(gone.status, 403, "{}", gone.text());
    there.put("/locked/versions", "", b"newer").ok();
    let after = there.seen("locked");
    let homes = [&pools.target, &pools.source];
    let back = pools.migrate_between(homes, [None, None], &["--bucket", "locked", "--keep-source"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert!(back.stdout.contains("the source keeps it out of use"), "{}", back.stdout);
    assert_eq!(s3.seen("locked"), after);
    assert_eq!(there.get("/locked/kept", "").status, 503, "what is kept is out of use");
    let kept = bucket(&pools.target, "locked")["moves"].clone();
    assert_eq!(kept["state"], "left", "{kept}");
}

#[test]
fn what_changes_while_it_is_sent_goes_over() {
    let pools = Pools::new();
    let s3 = pools.s3.clone();
    s3.put("/box/changed", "", b"before").ok();
    s3.put("/box/removed", "", b"before").ok();
    let (mut looks, mut fenced, client) = (0, false, s3.clone());
    let run = pools.from(move |asked| {
        looks += u32::from(asked.line.contains("/changes"));
        if asked.line.starts_with("POST /v1/buckets/box/read") && !fenced {
            client.put("/box/changed", "", b"while it is read").ok();
        }
        if asked.line.contains("/changes?since=") && looks == 2 {
            client.ask("DELETE", "/box/removed", "", &[], b"").ok();
            client.put("/box/new", "", &[9; 100_000]).ok();
        }
        if asked.is_fence() {
            fenced = true;
            client.put("/box/last", "", b"right before").ok();
            client.put("/box", "cors", CORS).ok();
        }
        Fate::Pass
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    let there = pools.there();
    assert_eq!(there.get("/box/changed", "").ok().text(), "while it is read");
    assert_eq!(there.get("/box/removed", "").status, 404);
    assert_eq!(there.get("/box/new", "").ok().body, [9; 100_000]);
    assert_eq!(there.get("/box/last", "").ok().text(), "right before");
    assert!(there.get("/box", "cors").ok().text().contains("a.example"));
    pools.assert_there();
}

#[test]
fn a_bucket_that_was_made_anew_before_the_fence_is_not_the_one_that_was_sent() {
    let pools = Pools::new();
    pools.s3.put("/box/old", "", b"old").ok();
    let (client, mut done) = (pools.s3.clone(), false);
    let run = pools.from(move |asked| {
        if asked.is_fence() && !std::mem::replace(&mut done, true) {
            client.ask("DELETE", "/box/old", "", &[], b"").ok();
            client.ask("DELETE", "/box", "", &[], b"").ok();
            client.put("/box", "", b"").ok();
            client.put("/box/new", "", b"new").ok();
        }
        Fate::Pass
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    let there = pools.there();
    assert_eq!((there.get("/box/old", "").status, there.get("/box/new", "").status), (404, 200));
    pools.assert_there();
}

#[test]
fn other_keys_and_uploads_under_way_refuse() {
    let pools = Pools::new();
    let upload = pools.s3.upload("/box/upload", &[(5 << 20, 1)], false);
    let said = pools.migrate([None, None], &[]).refused(1);
    assert!(said.contains("1 uploads in parts are under way in bucket box"), "{said}");
    assert_eq!(bucket(&pools.source, "box")["moves"], Value::Null, "it was not fenced");
    pools.s3.put("/box/upload", &format!("partNumber=2&uploadId={upload}"), b"more").ok();
    let run = pools.migrate([None, None], &["--drop-uploads"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stdout.contains("1 uploads in parts that were under way are lost"),
        "{}",
        run.stdout
    );
    pools.assert_there();
    let stranger = Home::new();
    let _daemon = stranger.serve(&["--s3", "127.0.0.1:0"]);
    let homes = [&pools.target, &stranger];
    let said = pools.migrate_between(homes, [None, None], &["--bucket", "box"]).refused(1);
    assert!(said.contains("different `s3.key` files"), "{said}");
    let planned = pools.migrate_between(homes, [None, None], &["--bucket", "box", "--dry-run"]);
    assert!(planned.stdout.contains("no bucket can be moved: "), "{}", planned.stdout);
    assert_eq!(bucket(&stranger, "box"), "no bucket");
}

#[test]
fn what_cannot_be_moved_is_said_and_the_target_s_is_left_alone() {
    let pools = Pools::new();
    let said = pools.migrate_between(
        [&pools.source, &pools.target],
        [None, None],
        &["--bucket", "nowhere"],
    );
    assert!(said.refused(1).contains("the source has no bucket nowhere"));
    let other = S3::of_new_user(&pools.target, "bob");
    other.put("/box", "", b"").ok();
    other.put("/box/mine", "", b"bob's").ok();
    let said = pools.migrate([None, None], &[]).refused(1);
    assert!(said.contains("the target has another bucket box"), "{said}");
    assert!(pools.migrate([None, None], &["--cancel"]).refused(1).contains("another bucket box"));
    assert_eq!(other.get("/box/mine", "").ok().text(), "bob's");
    pools.s3.put("/box/k", "", b"in use").ok();
}

#[test]
fn a_last_step_that_is_not_answered_is_found_to_be_done() {
    let pools = Pools::new();
    pools.s3.put("/box/k", "", b"v").ok();
    let lost = |asked: &Asked| if asked.is_last_step() { Fate::AnswerLost } else { Fate::Pass };
    let run = pools.to(lost);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(pools.there().get("/box/k", "").ok().text(), "v");
    pools.assert_there();
}

#[test]
fn a_last_step_that_comes_late_does_nothing_once_the_source_is_given_back() {
    let pools = Pools::new();
    pools.s3.put("/box/k", "", b"v").ok();
    let late = Arc::new(Mutex::new(Value::Null));
    let seen = Arc::clone(&late);
    pools
        .to(move |asked| {
            if !asked.is_last_step() {
                return Fate::Pass;
            }
            *seen.lock().unwrap() = asked.body.clone();
            Fate::Lost
        })
        .refused(1);
    pools.assert_given_back();
    let late = late.lock().unwrap().clone();
    let (status, body) = call(&pools.target, "POST", "/v1/buckets/box/move", &late);
    assert_eq!((status, &body["kind"]), (409, &"conflict".into()), "{body}");
    pools.moved();
    assert_eq!(pools.there().get("/box/k", "").ok().text(), "v");
    pools.assert_there();
}

/// A run ends behind the fence with nobody to ask; the source's is read and not changed, also after a restart, until a
/// second run gives it back to its clients and sends what they change then, or somebody gives it up.
#[test]
fn a_fence_that_a_run_left_is_given_back_before_the_rest_is_sent() {
    for more in [&[][..], &["--cancel"]] {
        let mut pools = Pools::new();
        pools.s3.put("/box/k", "", b"v").ok();
        let gone = Arc::new(Mutex::new(false));
        let run = pools.to(move |asked| {
            let mut gone = gone.lock().unwrap();
            *gone |= asked.is_last_step();
            if *gone { Fate::Lost } else { Fate::Pass }
        });
        let said = run.refused(1);
        assert!(said.contains("bucket box refuses changes at the source still"), "{said}");
        pools.assert_fenced();
        assert_eq!(pools.there().get("/box/k", "").status, 503, "it arrives");
        drop(pools.daemons[0].take());
        pools.daemons[0] = Some(pools.source.serve(&["--s3", "127.0.0.1:0"]));
        pools.s3 = pools.s3.at(&pools.source);
        pools.assert_fenced();
        let status = pools.migrate([None, None], &["--status"]);
        assert!(
            status.stdout.contains("at the source: refuses changes, on its way to"),
            "{}",
            status.stdout
        );
        let run = pools.migrate([None, None], more);
        assert_eq!(run.code, 0, "{}", run.stderr);
        if more.is_empty() {
            assert_eq!(pools.there().get("/box/k", "").ok().text(), "v");
            pools.assert_there();
        } else {
            assert_eq!(bucket(&pools.target, "box"), "no bucket");
            pools.s3.put("/box/k", "", b"in use").ok();
        }
    }
}

/// The command dies between the target's last step and the source's: whatever runs next ends it, and nothing gives it
/// up.
#[test]
fn what_arrived_and_was_not_told_is_ended_by_the_next_run() {
    let pools = Pools::new();
    pools.s3.put("/box/k", "", b"v").ok();
    let gone = Arc::new(Mutex::new(false));
    let run = pools.from(move |asked| {
        let mut gone = gone.lock().unwrap();
        *gone |= asked.is_step() && asked.body["after"]["state"] == "left";
        if *gone { Fate::Lost } else { Fate::Pass }
    });
    run.refused(1);
    assert_eq!(bucket(&pools.source, "box")["moves"]["state"], "leaving");
    let there = pools.there();
    there.put("/box/k", "", b"newer").ok();
    let marked = there.ask("DELETE", "/box/k", "", &[], b"").ok();
    assert_eq!(marked.status, 204);
    let refused = there.ask("DELETE", "/box", "", &[], b"");
    assert_eq!(refused.status, 409, "its source has it still: {}", refused.text());
    let said = pools.migrate([None, None], &["--cancel"]).refused(1);
    assert!(said.contains("bucket box is in use at the target already"), "{said}");
    assert!(pools.moved().contains("had arrived already"));
    assert_eq!(there.get("/box/k", "").status, 404, "what it is now stays");
    pools.assert_there();
}

/// What a first run still sends when a second one has the bucket changes nothing.
#[test]
fn a_run_that_lost_the_bucket_changes_nothing() {
    let pools = Pools::new();
    pools.s3.put("/box/k", "", b"v").ok();
    let (target, mut done) = (admin_socket(&pools.target), false);
    let said = pools
        .to(move |asked| {
            if asked.line.ends_with("/receive") && !std::mem::replace(&mut done, true) {
                let ask = |method, path, body: &Value| {
                    crate::between::call_at(&target, method, path, body)
                };
                let before = ask("GET", "/v1/buckets/box", &Value::Null).1["moves"].clone();
                let mut after = before.clone();
                after["run"] = json!("2".repeat(32));
                let step = json!({"before": before, "after": after});
                let (status, answer) = ask("POST", "/v1/buckets/box/move", &step);
                assert_eq!(status, 200, "{answer}");
            }
            Fate::Pass
        })
        .refused(1);
    assert!(said.contains("bucket"), "{said}");
    assert_eq!(bucket(&pools.target, "box")["objects"], 0, "{said}");
    pools.s3.put("/box/k", "", b"in use").ok();
    pools.moved();
    assert_eq!(pools.there().get("/box/k", "").ok().text(), "in use");
    pools.assert_there();
}

/// Another run takes the bucket's part over and refuses its changes, while this one has seen no fence: this one gives
/// the bucket back before it sends everything, and what arrives is what the source has.
#[test]
fn a_fence_of_another_run_that_came_meanwhile_is_taken_back() {
    let pools = Pools::new();
    pools.s3.put("/box/k", "", b"v").ok();
    let gone = Arc::new(Mutex::new(false));
    let run = pools.to(move |asked| {
        let mut gone = gone.lock().unwrap();
        *gone |= asked.line.ends_with("/receive");
        if *gone { Fate::Lost } else { Fate::Pass }
    });
    run.refused(1);
    let (source, mut done) = (admin_socket(&pools.source), false);
    assert_eq!(bucket(&pools.target, "box")["moves"]["state"], "arriving");
    let pool =
        crate::between::call_at(&admin_socket(&pools.target), "GET", "/v1/pool", &Value::Null).1;
    let after = json!({
        "state": "leaving", "pool": pool["id"], "address": "elsewhere", "run": "2".repeat(32),
    });
    let run = pools.to(move |asked| {
        if asked.is_step() && !std::mem::replace(&mut done, true) {
            let number = crate::between::call_at(&source, "GET", "/v1/buckets/box", &Value::Null).1;
            let step = json!({"after": after.clone(), "number": number["id"]});
            let (status, answer) =
                crate::between::call_at(&source, "POST", "/v1/buckets/box/move", &step);
            assert_eq!(status, 200, "{answer}");
        }
        Fate::Pass
    });
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(pools.there().get("/box/k", "").ok().text(), "v");
    pools.assert_there();
}

/// The part that was filled is deleted, and another one made, before changes are refused: nothing arrives that was not
/// sent.
#[test]
fn a_part_that_another_run_made_anew_before_the_fence_does_not_arrive() {
    let pools = Pools::new();
    pools.s3.put("/box", "versioning", VERSIONED).ok();
    pools.s3.ask("DELETE", "/box/marked", "", &[], b"").ok();
    let (target, mut done) = (admin_socket(&pools.target), false);
    let run = pools.from(move |asked| {
        if asked.is_fence() && !std::mem::replace(&mut done, true) {
            let ask = |method, path: &str, body: &Value| {
                let (status, answer) = crate::between::call_at(&target, method, path, body);
                assert!(status < 300, "{path}: {answer}");
                answer
            };
            let settings = ask("GET", "/v1/buckets/box/settings", &Value::Null);
            let moves = ask("GET", "/v1/buckets/box", &Value::Null)["moves"].clone();
            let mut given_up = moves.clone();
            given_up["state"] = json!("left");
            given_up["remark"] = json!("given_up");
            ask("POST", "/v1/buckets/box/move", &json!({"before": moves, "after": given_up}));
            let path = format!("/v1/buckets/box?{}", expects(&given_up));
            ask("DELETE", &path, &Value::Null);
            let arriving =
                json!({"moves": moves, "record": settings["record"], "private_copy": false});
            ask("POST", "/v1/buckets", &json!({"name": "box", "arriving": arriving}));
        }
        Fate::Pass
    });
    let said = run.refused(1);
    assert!(said.contains("does not have what was sent of bucket box"), "{said}");
    pools.moved();
    let versions = pools.there().get("/box", "versions").ok().text();
    assert!(versions.contains("<Key>marked</Key>"), "{versions}");
    pools.assert_there();
}

/// Where keys of S3 differ, volumes go over and buckets stay.
#[test]
fn other_keys_keep_buckets_alone_from_going_over() {
    let (source, target) = (Home::new(), Home::new());
    let _daemons = [&source, &target].map(|home| home.serve(&["--s3", "127.0.0.1:0"]));
    source.varve(&["volume", "create", "vm", "--size", "64MiB"]);
    S3::of_new_user(&source, "ann").put("/box", "", b"").ok();
    let [from, to] =
        [&source, &target].map(|home| format!("unix:{}", admin_socket(home).display()));
    let [nbd, to_nbd] =
        [&source, &target].map(|home| format!("unix:{}", home.path().join("nbd.sock").display()));
    let command =
        ["--addr", &from, "pool", "migrate", "--to", &to, "--nbd", &nbd, "--to-nbd", &to_nbd];
    let run = source.varve(&command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.contains("no bucket can be moved: "), "{}", run.stdout);
    assert!(target.varve(&["volume", "show", "vm"]).code == 0, "the volume is not there");
    assert_eq!(bucket(&source, "box")["moves"], Value::Null);
    assert_eq!(bucket(&target, "box"), "no bucket");
}
