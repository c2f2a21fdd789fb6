//! Answers of all cells, put together.

use serde_json::{Value, json};
use varve_access_admin::{AdminBackend, MemoryBackend};

use super::{MemoryCells, names};

#[tokio::test]
async fn a_listing_has_the_names_of_all_cells_in_order_page_by_page() {
    let fake = MemoryCells::empty(3);
    for number in 0..250 {
        fake.put(number % 2, &format!("v{number:03}")).await;
    }
    let (mut path, mut all, mut pages) = ("/v1/volumes?limit=101".to_owned(), Vec::new(), 0);
    loop {
        let page = fake.get(&path).await;
        let found = names(&page, "volumes");
        assert!(found.len() <= 101);
        let cell = |name: &str| name[1..].parse::<u64>().unwrap() % 2;
        let cells = page["volumes"].as_array().unwrap().iter().map(|volume| &volume["cell"]);
        assert!(cells.zip(&found).all(|(said, name)| *said == json!(cell(name))));
        all.extend(found);
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/volumes?limit=101&after={next}");
    }
    let expected: Vec<String> = (0..250).map(|number| format!("v{number:03}")).collect();
    assert_eq!((all, pages), (expected, 3));
    let names_of = |of: &str| json!({"names": [format!("{of}@x"), format!("{of}@y")]});
    // Two names of one volume are no matter to the backend here.
    for volume in ["v007", "v004"] {
        fake.call("POST", "/v1/snapshots", Some(names_of(volume))).await;
    }
    let page = fake.get("/v1/snapshots?limit=3").await;
    assert_eq!(names(&page, "snapshots"), ["v004@x", "v004@y", "v007@x"]);
    let page = fake.get("/v1/snapshots?limit=3&after=v007%40x").await;
    assert_eq!(
        (names(&page, "snapshots"), &page["next"]),
        (vec!["v007@y".to_owned()], &Value::Null)
    );
}

#[tokio::test]
async fn amounts_are_summed_up_and_the_fullest_cell_is_the_pools() {
    let used = |gib: u64| MemoryBackend::with_used_bytes(gib << 30);
    let fake = MemoryCells::new(vec![used(7), used(60), used(2)]);
    fake.put(2, "a").await;
    fake.put(0, "b").await;
    let status = fake.get("/v1/status").await;
    assert_eq!((&status["volumes"], &status["connections"]), (&json!(2), &json!(3)));
    assert_eq!((&status["state"], &status["missing_cells"]), (&json!("serving"), &Value::Null));
    assert_eq!(status["memory"]["budget_bytes"], json!(3 * (512u64 << 20)));
    assert_eq!(status["memory"]["resident_bytes"], json!(160u64 << 20), "one process has all");
    let shards = status["shards"].as_array().unwrap().iter();
    let shards: Vec<_> =
        shards.map(|shard| (shard["cell"].as_u64(), shard["shard"].as_u64())).collect();
    assert_eq!((shards.len(), shards[3]), (6, (Some(1), Some(1))));
    assert_eq!(status["listeners"].as_array().unwrap().len(), 1, "it is the same one");
    let nodes = status["nodes"].as_array().unwrap();
    let carried = |node: &Value| (node["serves"].clone(), node["connections"].clone());
    let carried: Vec<_> = nodes.iter().map(carried).collect();
    assert_eq!(carried, [(json!(true), json!(0)), (json!(false), json!(40))], "counted once");
    let fill = &status["fill"];
    assert_eq!((&fill["used_bytes"], &fill["level"]), (&json!(69u64 << 30), &json!("high")));
    assert_eq!(fill["advice"], "cell 1 is at 93 %: make room");
    let cells = status["cells"].as_array().unwrap();
    assert_eq!((cells.len(), &cells[1]["fill"]["level"]), (3, &json!("high")));
    assert_eq!(cells[0]["node"], "a.example, process 5");

    let pool = fake.get("/v1/pool").await;
    assert_eq!((&pool["shards"], &pool["used_bytes"]), (&json!(6), &json!(69u64 << 30)));
    assert_eq!(pool["id"], "00000000-0000-0000-0000-000000000001");
    let drives = fake.get("/v1/drives").await;
    assert_eq!(drives["drives"].as_array().unwrap().len(), 1, "they are the same ones");
    let health = fake.get("/v1/health").await;
    assert_eq!((&health["state"], &health["reasons"]), (&json!("ok"), &json!([])));
    let space = fake.get("/v1/space").await;
    assert_eq!(
        (names(&space, "volumes"), &space["fill"]),
        (vec!["a".to_owned(), "b".to_owned()], fill)
    );
    let bytes = |field: &str| space[field].as_u64().unwrap();
    assert_eq!(bytes("used_bytes") + bytes("free_bytes"), bytes("capacity_bytes"));
    assert_eq!(bytes("stored_bytes") + bytes("metadata_bytes"), bytes("used_bytes"));
    assert_eq!(bytes("logical_bytes"), 1 << 30);
}

#[tokio::test]
async fn the_worst_cell_is_the_pools_health() {
    let fake = MemoryCells::new(vec![MemoryBackend::default(), MemoryBackend::with_failed_drive()]);
    let health = fake.get("/v1/health").await;
    assert_eq!(health["state"], "at_risk");
    assert_eq!(health["reasons"][0]["message"], "cell 1: drive 1 failed");
}

#[tokio::test]
async fn metrics_carry_the_label_of_their_cell() {
    let fake = MemoryCells::empty(2);
    let text = fake.exchange("GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", None).await;
    assert!(text.contains("content-type: text/plain; version=0.0.4"), "{text}");
    for cell in [0, 1] {
        let line = format!("varve_engine_writes_total{{cell=\"{cell}\",shard=\"1\"}} 9\n");
        assert!(text.contains(&line), "{text}");
    }
    assert_eq!(text.matches("# TYPE varve_engine_writes_total").count(), 1);
}

#[tokio::test]
async fn a_check_is_of_all_cells_and_not_whole_while_one_was_not_checked() {
    let fake = MemoryCells::empty(2);
    fake.put(1, "damaged").await;
    assert_eq!(fake.get("/v1/check").await["state"], "idle");
    let (status, begun) = fake.call("POST", "/v1/check", None).await;
    assert_eq!((status, &begun["state"]), (202, &json!("running")));
    let check = fake.get("/v1/check").await;
    assert_eq!((&check["state"], &check["report"]["dangling"]), (&json!("done"), &json!(1)));
    assert_eq!(
        check["report"]["findings"],
        json!(["cell 1: damaged: block 7 names 12, which is not there"])
    );
    assert_eq!(check["references"], 2000);

    let fake = MemoryCells::empty(2);
    fake.backend(0).start_check().await.unwrap();
    let check = fake.get("/v1/check").await;
    assert_eq!(check["state"], "failed");
    assert!(check["error"].as_str().unwrap().starts_with("cell 1: "), "{check}");
}
