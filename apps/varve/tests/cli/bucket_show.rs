//! Goal: `varve bucket show` says what a bucket is and holds. Method: a memory backend behind the real API.

use crate::rig::Api;

#[test]
fn people_see_every_property() {
    let api = Api::start();
    api.varve(&["bucket", "create", "full", "--versioning", "--objects", "10"]).ok();
    let shown = api.varve(&["bucket", "show", "full"]).ok();
    let expected = "\
bucket        full
id            1
owner         owner
objects       3
size          3 MiB
quota         none
object limit  10
versioning    enabled
object lock   off
dedup         auto
compression   lz4
access log    off
created       ";
    assert!(shown.starts_with(expected), "{shown}");
}

#[test]
fn an_absent_bucket_is_a_failure() {
    let said = Api::start().varve(&["bucket", "show", "none"]).refused(1);
    assert!(said.contains("no bucket `none`"), "{said}");
}
