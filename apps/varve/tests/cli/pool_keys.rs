//! Goal: the sealing key of S3 can be saved, brought back and, once it is lost, replaced; and without it volumes are
//! served all the same. Method: daemons on a small drive whose key is kept in the file alone, or in the pool.

use std::fs;

use crate::daemon::Home;

const S3: &[&str] = &["--s3", "127.0.0.1:0"];

fn user_keys(home: &Home) -> usize {
    home.varve(&["user", "show", "owner", "--json"]).json()["access_keys"].as_array().unwrap().len()
}

#[test]
fn a_lost_file_comes_back_from_the_pool() {
    let home = Home::new();
    drop(home.serve(S3));
    let file = home.path().join("varve-data/s3.key");
    let key = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let daemon = home.serve(S3);
    assert_eq!((user_keys(&home), fs::read(&file).unwrap()), (1, key));
    home.varve(&["pool", "keys", "export", "saved"]).ok();
    assert_eq!(fs::read(home.path().join("saved")).unwrap(), fs::read(&file).unwrap());
    let said = home.varve(&["pool", "keys", "export", "saved"]).refused(1);
    assert!(said.contains("saved exists"), "{said}");
    let said = home.varve(&["pool", "keys", "renew"]).refused(1);
    assert!(said.contains("already served by process"), "{said}");
    drop(daemon);
}

#[test]
fn without_the_key_volumes_are_served_and_it_can_be_brought_back_or_renewed() {
    let home = Home::new();
    // Of the table `s3`, which stands last.
    home.configure("key_in_pool = false\n");
    let daemon = home.serve(S3);
    home.varve(&["volume", "create", "v", "--size", "64MiB"]).ok();
    home.varve(&["pool", "keys", "export", "saved"]).ok();
    drop(daemon);
    let file = home.path().join("varve-data/s3.key");
    fs::remove_file(&file).unwrap();

    let daemon = home.serve(S3);
    home.connect("v").write(0, &[1; 4096]);
    let status = home.varve(&["status", "--json"]).json();
    let trouble = status["troubles"][0].as_str().unwrap().to_owned();
    assert_eq!(status["state"], "degraded");
    assert!(
        trouble.contains("the sealing key is lost") && trouble.contains("keys import"),
        "{trouble}"
    );
    let said = home.varve(&["user", "list"]).refused(1);
    assert!(said.contains("the sealing key is lost"), "{said}");
    assert!(!file.exists(), "no other key stands in for it");
    drop(daemon);

    let said = home.varve(&["pool", "keys", "import", "nowhere"]).refused(1);
    assert!(said.contains("no file nowhere"), "{said}");
    home.varve(&["pool", "keys", "import", "saved"]).ok();
    let daemon = home.serve(S3);
    assert_eq!(user_keys(&home), 1);
    drop(daemon);

    fs::remove_file(&file).unwrap();
    home.varve(&["pool", "keys", "renew"]).ok();
    let _daemon = home.serve(S3);
    assert_eq!(user_keys(&home), 0);
    home.varve(&["user", "key", "create", "owner"]).ok();
    assert_eq!(user_keys(&home), 1);
}
