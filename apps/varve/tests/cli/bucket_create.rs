//! Goal: `varve bucket create` makes what was asked for or says why not. Method: a memory backend behind the real API.

use varve_access_admin::MemoryBackend;

use crate::rig::Api;

#[test]
fn a_bucket_belongs_to_whom_it_was_made_for() {
    let api = Api::start();
    assert_eq!(api.varve(&["bucket", "create", "photos"]).ok(), "created bucket photos of owner\n");
    api.varve(&["user", "create", "ann"]).ok();
    let made = api.varve(&[
        "bucket",
        "create",
        "hers",
        "--owner",
        "ann",
        "--object-lock",
        "--quota",
        "1TiB",
        "--objects",
        "1000",
        "--json",
    ]);
    let made = made.json();
    assert_eq!((&made["owner"], &made["versioning"]), (&"ann".into(), &"enabled".into()));
    assert_eq!(made["object_lock"], true);
    assert_eq!(
        (&made["quota_bytes"], &made["quota_objects"]),
        (&(1u64 << 40).into(), &1000.into())
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let api = Api::start();
    api.varve(&["bucket", "create", "photos"]).ok();
    assert!(
        api.varve(&["bucket", "create", "photos"])
            .refused(1)
            .contains("bucket `photos` already exists")
    );
    let said = api.varve(&["bucket", "create", "hers", "--owner", "ann"]).refused(1);
    assert!(said.contains("no user `ann`"), "{said}");
    assert!(api.varve(&["bucket", "create", "no_name"]).refused(1).contains("invalid bucket name"));
}

#[test]
fn without_s3_it_says_how_to_serve_it() {
    let said = Api::over(MemoryBackend::without_s3()).varve(&["bucket", "create", "b"]).refused(1);
    assert!(said.contains("S3 is not served by this daemon\n  try: start it with `--s3"), "{said}");
}
