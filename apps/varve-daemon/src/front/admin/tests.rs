//! Goal: a pool of several cells is one to its clients. Method: the router before real admin APIs over memory backends,
//! a cell each, in one process; a register that says which backend has a name, or what it is told to say.

mod failures;
mod one_cell;
mod sums;

use std::sync::Arc;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::memory_cells::{CellConduct, MemoryCells};
use super::{Guard, route};

impl MemoryCells {
    /// Sends bytes as a client does, and reads to the end.
    async fn exchange(self: &Arc<Self>, request: &str, guard: Option<Guard>) -> String {
        let (mut client, server) = duplex(64 << 10);
        let routed = tokio::spawn(route(Arc::clone(self), server, guard));
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        routed.await.unwrap();
        answer
    }

    /// One request: status and JSON body (null when empty).
    async fn call(self: &Arc<Self>, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: varve\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let answer = self.exchange(&request, None).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        (status_of(&answer), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    async fn get(self: &Arc<Self>, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {answer:?}")).parse().unwrap()
}

fn names(page: &Value, what: &str) -> Vec<String> {
    let all = page[what].as_array().unwrap().iter();
    all.map(|thing| thing["name"].as_str().unwrap().to_owned()).collect()
}
