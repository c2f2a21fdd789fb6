//! Goal: a record that cannot be read stops nobody who goes through all of them, costs nothing that others hold, and
//! can be deleted. Method: such records are stored past the checks of names, on real shards; then everything that
//! visits all records is run.

use std::sync::Arc;

use varve_dispatch::CheckProgress;
use varve_types::ErrorKind;

use crate::Datasets;
use crate::catalog::{find, home_of, put, remove_volume, store};
use crate::name::DatasetName;
use crate::rig::{Life, Rig, volume_spec};

async fn listed(datasets: &Datasets) -> Vec<String> {
    datasets.volumes().await.unwrap().into_iter().map(|volume| volume.name).collect()
}

/// Everything that goes through all records works, and the volume `kept` holds what it held.
async fn works(life: &Life) {
    let datasets = life.datasets();
    datasets.space().await.unwrap();
    datasets.figures().await.unwrap();
    datasets.mark().await.unwrap();
    datasets.check_online(Arc::new(CheckProgress::default())).await.unwrap();
    assert_eq!(life.values("kept").await, [7; 4]);
}

#[test]
fn a_name_that_is_too_long_with_its_namespace_is_refused_and_one_that_is_stored_is_served() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        life.create("kept").await;
        life.fill("kept", 7).await;
        let long = "c".repeat(248);
        for name in [long.clone(), "d".repeat(255), format!("lab/{}", "e".repeat(252))] {
            let refused = datasets.create_volume(volume_spec(&name)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
            let refused = datasets.clone_volume("kept", &name).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{name}");
        }
        datasets.create_volume(volume_spec(&"c".repeat(247))).await.unwrap();
        datasets.delete_volume(&"c".repeat(247), false).await.unwrap();
        // As earlier versions stored it.
        let (kept, name) =
            (DatasetName::parse("kept").unwrap(), DatasetName::parse(&long).unwrap());
        datasets.create_volume(volume_spec("other")).await.unwrap();
        let other = DatasetName::parse("other").unwrap();
        let record = find(datasets.dispatch(), &other).await.unwrap().unwrap();
        remove_volume(datasets.dispatch(), &other).await.unwrap();
        store(datasets.dispatch(), &name, &record).await.unwrap();
        assert_eq!(listed(datasets).await, [long.clone(), kept.display()]);
        life.fill(&long, 3).await;
        life.snapshot(&format!("{long}@s")).await;
        works(&life).await;
        assert_eq!(life.values(&format!("{long}@s")).await, [3; 4]);
        datasets.delete_volume(&long, true).await.unwrap();
        assert_eq!(listed(datasets).await, ["kept"]);
    });
}

#[test]
fn records_that_cannot_be_read_stop_nobody_and_their_streams_stay_until_they_are_deleted() {
    Rig::new().live(async |life: Life| {
        let datasets = life.datasets();
        for name in ["kept", "hurt", "odd"] {
            life.create(name).await;
            life.fill(name, 7).await;
        }
        life.snapshot("hurt@s").await;
        life.snapshot("hurt@t").await;
        let dispatch = datasets.dispatch();
        let (hurt, odd) = (DatasetName::parse("hurt").unwrap(), DatasetName::parse("odd").unwrap());
        let whole = find(dispatch, &hurt).await.unwrap().unwrap();
        let moved = find(dispatch, &odd).await.unwrap().unwrap();
        remove_volume(dispatch, &odd).await.unwrap();
        let home = home_of(dispatch, &hurt);
        // A volume's value, a snapshot's value, and a name that is none.
        put(dispatch, home, b"vdefault/hurt".to_vec(), vec![9; 52]).await.unwrap();
        put(dispatch, home, b"sdefault/hurt@s".to_vec(), vec![9; 68]).await.unwrap();
        put(dispatch, home, b"vdefault/o\xFFd d".to_vec(), moved.encode()).await.unwrap();
        works(&life).await;
        assert_eq!(listed(datasets).await, ["kept"]);
        let snapshots = datasets.snapshots(None, None, 1).await.unwrap();
        assert_eq!(snapshots[0].name, "hurt@t", "the next one in its place");
        let report = datasets.check_online(Arc::new(CheckProgress::default())).await.unwrap();
        assert_eq!((report.unreadable_records, report.is_damaged()), (3, true));
        for name in ["`hurt`", "`hurt@s`", "`default/o%FFd%20d`"] {
            assert!(report.findings.iter().any(|it| it.contains(name)), "{:?}", report.findings);
        }
        // Nothing of them was freed: with its record back, the volume is as it was.
        store(dispatch, &hurt, &whole).await.unwrap();
        assert_eq!(life.values("hurt").await, [7; 4]);
        put(dispatch, home, b"vdefault/hurt".to_vec(), vec![9; 52]).await.unwrap();

        let readable = datasets.delete_volume("default/k%65pt", false).await.unwrap_err();
        assert_eq!(readable.kind(), ErrorKind::Invalid, "an escape that is not needed");
        datasets.delete_volume("default/o%FFd%20d", false).await.unwrap();
        let gone = datasets.delete_volume("default/o%FFd%20d", false).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::NotFound);
        datasets.delete_snapshot("hurt@s").await.unwrap();
        datasets.delete_volume("hurt", false).await.unwrap();
        let report = datasets.check_online(Arc::new(CheckProgress::default())).await.unwrap();
        assert!(!report.is_damaged(), "{:?}", report.findings);
        works(&life).await;
    });
}
