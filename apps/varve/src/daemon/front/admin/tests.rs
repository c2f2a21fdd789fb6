//! Goal: a pool of several cells is one to its clients. Method: the router before real admin APIs over memory backends,
//! a cell each, in one process; a register that says which backend has a name, or what it is told to say.

mod commands;
mod failures;
mod one_cell;
mod sums;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use varve_access_admin::{AdminBackend, Callers, LimitsConfig, MemoryBackend, serve};
use varve_types::CellId;

use super::{BoxedStream, Guard, PoolCells, route};

/// How a cell meets those who connect.
enum Conduct {
    Serves,
    /// It takes what is said, and says nothing.
    Silent(Vec<DuplexStream>),
    /// It breaks so many connections once it has begun to read.
    Breaks(usize),
    /// Nobody serves it.
    Nobody,
}

struct Cell {
    backend: Arc<MemoryBackend>,
    api: mpsc::Sender<(BoxedStream, Option<std::net::SocketAddr>)>,
    conduct: Mutex<Conduct>,
    connections: AtomicUsize,
}

struct Fake {
    cells: Vec<Cell>,
    /// What the register says first, before it says how things are.
    said: Mutex<VecDeque<Result<Option<CellId>, String>>>,
}

impl Fake {
    fn new(backends: Vec<MemoryBackend>) -> Arc<Self> {
        let limits = LimitsConfig { request_timeout_ms: 100, ..LimitsConfig::default() };
        let cell = |backend| {
            let backend = Arc::new(backend);
            let (api, accepted) = mpsc::channel(16);
            let served = Arc::clone(&backend) as Arc<dyn AdminBackend>;
            let callers = Callers { accepted: Some(accepted), ..Callers::default() };
            tokio::spawn(serve(callers, served, limits, std::future::pending()));
            let (conduct, connections) = (Mutex::new(Conduct::Serves), AtomicUsize::new(0));
            Cell { backend, api, conduct, connections }
        };
        let cells = backends.into_iter().map(cell).collect();
        Arc::new(Self { cells, said: Mutex::default() })
    }

    /// Cells without anything in them.
    fn empty(count: usize) -> Arc<Self> {
        Self::new((0..count).map(|_| MemoryBackend::default()).collect())
    }

    fn conducts(&self, cell: usize, conduct: Conduct) {
        *self.cells[cell].conduct.lock().unwrap() = conduct;
    }

    fn says(&self, said: Result<Option<u16>, &str>) {
        let said = said.map(|cell| cell.map(CellId)).map_err(str::to_owned);
        self.said.lock().unwrap().push_back(said);
    }

    fn connections(&self, cell: usize) -> usize {
        self.cells[cell].connections.load(Ordering::Relaxed)
    }

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

    /// Makes a volume in a cell, by its own API.
    async fn put(&self, cell: usize, name: &str) {
        let spec = serde_json::json!({"name": name, "size_bytes": 1 << 30});
        let spec = serde_json::from_value(spec).unwrap();
        self.cells[cell].backend.create_volume(spec).await.unwrap();
    }

    async fn has(&self, cell: usize, name: &str) -> bool {
        self.cells[cell].backend.volume(name.to_owned()).await.is_ok()
    }
}

impl PoolCells for Fake {
    fn count(&self) -> u16 {
        u16::try_from(self.cells.len()).unwrap()
    }

    async fn connect(&self, cell: CellId) -> io::Result<BoxedStream> {
        let cell = &self.cells[usize::from(cell.0)];
        cell.connections.fetch_add(1, Ordering::Relaxed);
        let (near, mut far) = duplex(64 << 10);
        match &mut *cell.conduct.lock().unwrap() {
            Conduct::Serves | Conduct::Breaks(0) => {}
            Conduct::Silent(held) => {
                held.push(far);
                return Ok(Box::new(near));
            }
            Conduct::Breaks(left) => {
                *left -= 1;
                tokio::spawn(async move { far.read_u8().await });
                return Ok(Box::new(near));
            }
            Conduct::Nobody => return Err(io::Error::other("nobody is to serve it")),
        }
        let taken = cell.api.send((Box::new(far), None)).await;
        taken.map_err(|_| io::Error::other("its API has ended"))?;
        Ok(Box::new(near))
    }

    async fn cell_of_volume(&self, name: &str) -> Result<Option<CellId>, String> {
        let said = self.said.lock().unwrap().pop_front();
        if let Some(said) = said {
            return said;
        }
        for cell in 0..self.count() {
            if self.has(cell.into(), name).await {
                return Ok(Some(CellId(cell)));
            }
        }
        Ok(None)
    }
}

fn status_of(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {answer:?}")).parse().unwrap()
}

fn names(page: &Value, what: &str) -> Vec<String> {
    let all = page[what].as_array().unwrap().iter();
    all.map(|thing| thing["name"].as_str().unwrap().to_owned()).collect()
}
