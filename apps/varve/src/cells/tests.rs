//! What commands print of a pool of several cells.

use std::sync::Arc;

use clap::Parser;
use serde_json::{Value, json};
use varve_access_admin::{ADMIN_SOCKET, MemoryBackend};
use varve_daemon::{CellConduct, MemoryCells};

use crate::command_line::Cli;

/// A router on a socket, until it is dropped.
struct Socket {
    cells: Arc<MemoryCells>,
    runtime: tokio::runtime::Runtime,
    directory: tempfile::TempDir,
}

impl Socket {
    fn new(backends: impl FnOnce() -> Vec<MemoryBackend>) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let cells = runtime.block_on(async {
            let cells = MemoryCells::new(backends());
            cells.listen(&directory.path().join(ADMIN_SOCKET)).unwrap();
            cells
        });
        Self { cells, runtime, directory }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let data = self.directory.path().to_str().unwrap();
        let all = [&["varve", "--data", data], arguments].concat();
        let ran = Cli::try_parse_from(all).unwrap().run();
        ran.unwrap_or_else(|failure| panic!("{}", failure.what()))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[arguments, &["--json"]].concat())).unwrap()
    }
}

#[test]
fn commands_show_cells_and_what_is_missing() {
    let used = |gib: u64| MemoryBackend::with_used_bytes(gib << 30);
    let socket = Socket::new(|| vec![used(7), used(60)]);
    let create = ["volume", "create", "a", "--size", "1GiB"];
    assert_eq!(socket.run(&create), "created volume a of 1 GiB in cell 0\n");
    socket.runtime.block_on(socket.cells.put(1, "b"));
    let create = ["volume", "create", "c", "--size", "1GiB", "--beside", "b"];
    assert_eq!(socket.run(&create), "created volume c of 1 GiB in cell 1\n");
    assert!(socket.run(&["volume", "show", "c"]).contains("\ncell                1\n"));
    assert_eq!(socket.json(&["volume", "show", "c"])["cell"], 1);
    let list = socket.run(&["volume", "list"]);
    let cells: Vec<&str> = list.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert_eq!(cells, ["CELL", "0", "1", "1"], "{list}");
    let whole = socket.json(&["volume", "list"]);
    assert_eq!((&whole["volumes"][1]["cell"], whole.get("missing_cells")), (&json!(1), None));

    let status = socket.run(&["status"]);
    let expected = "\
space is high, 52 % used: cell 1 is at 93 %: make room

CELL    USED  CAPACITY  SPACE  NODE
   0   7 GiB    64 GiB  ok     a.example, process 5
   1  60 GiB    64 GiB  high   a.example, process 5

CELL  SHARD  STATE    UNDRAINED               LANE
   0      0  serving     12 MiB  16 MiB of 256 MiB
";
    assert!(status.contains(expected), "{status}");
    let nodes = socket.run(&["node", "list"]);
    let cells = "SERVES  CELLS  CONNECTIONS";
    assert!(
        nodes.contains(cells) && nodes.contains("yes     0, 1 ") && nodes.contains("no      none "),
        "{nodes}"
    );
    let df = socket.run(&["df"]);
    assert!(df.contains("\nCELL    USED  CAPACITY  SPACE\n   0   7 GiB    64 GiB  ok\n"), "{df}");

    socket.cells.conducts(1, CellConduct::Nobody);
    let told = "no answer from cells 1: what they hold is missing here\n";
    for command in [
        &["status"][..],
        &["df"],
        &["volume", "list"],
        &["pool", "show"],
        &["node", "list"],
        &["volume", "snapshot", "list"],
    ] {
        let text = socket.run(command);
        assert!(text.contains(told), "{command:?}: {text}");
        if command[0] != "node" {
            assert_eq!(socket.json(command)["missing_cells"], json!([1]), "{command:?}");
        }
    }
    assert_eq!(socket.json(&["volume", "list"])["volumes"].as_array().unwrap().len(), 1);
}
