//! Cells of a pool with admin APIs over memory, which tests of the API and of its clients run against.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use varve_access_admin::{AdminBackend, Callers, LimitsConfig, MemoryBackend, serve};
use varve_types::CellId;

use super::{BoxedStream, PoolCells, route};

/// How a cell meets those who connect.
pub enum CellConduct {
    /// It answers.
    Serves,
    /// It takes what is said, and says nothing.
    Silent(Vec<DuplexStream>),
    /// It breaks so many connections once it has begun to read.
    Breaks(usize),
    /// Nobody serves it.
    Nobody,
}

struct MemoryCell {
    backend: Arc<MemoryBackend>,
    api: mpsc::Sender<(BoxedStream, Option<std::net::SocketAddr>)>,
    conduct: Mutex<CellConduct>,
    connections: AtomicUsize,
}

/// A cell for each backend, and a register that says which of them has a name, or what it was given to say.
pub struct MemoryCells {
    cells: Vec<MemoryCell>,
    /// What the register says first, before it says how things are.
    said: Mutex<VecDeque<Result<Option<CellId>, String>>>,
}

impl MemoryCells {
    /// Cells with these backends; their APIs are tasks of the current runtime.
    pub fn new(backends: Vec<MemoryBackend>) -> Arc<Self> {
        let limits = LimitsConfig { request_timeout_ms: 100, ..LimitsConfig::default() };
        let cell = |backend| {
            let backend = Arc::new(backend);
            let (api, accepted) = mpsc::channel(16);
            let served = Arc::clone(&backend) as Arc<dyn AdminBackend>;
            let callers = Callers { accepted: Some(accepted), ..Callers::default() };
            tokio::spawn(serve(callers, served, limits, std::future::pending()));
            let (conduct, connections) = (Mutex::new(CellConduct::Serves), AtomicUsize::new(0));
            MemoryCell { backend, api, conduct, connections }
        };
        let cells = backends.into_iter().map(cell).collect();
        Arc::new(Self { cells, said: Mutex::default() })
    }

    /// Cells without anything in them.
    pub fn empty(count: usize) -> Arc<Self> {
        Self::new((0..count).map(|_| MemoryBackend::default()).collect())
    }

    /// How a cell is from now on.
    pub fn conducts(&self, cell: usize, conduct: CellConduct) {
        *self.cells[cell].conduct.lock().expect("no holder of the lock panics") = conduct;
    }

    /// What the register says next, before it says how things are.
    pub fn says(&self, said: Result<Option<u16>, &str>) {
        let said = said.map(|cell| cell.map(CellId)).map_err(str::to_owned);
        self.said.lock().expect("no holder of the lock panics").push_back(said);
    }

    /// Connections to a cell so far.
    pub fn connections(&self, cell: usize) -> usize {
        self.cells[cell].connections.load(Ordering::Relaxed)
    }

    /// Routes callers of a socket for as long as the current runtime runs.
    pub fn listen(self: &Arc<Self>, socket: &Path) -> io::Result<()> {
        let (cells, listener) = (Arc::clone(self), UnixListener::bind(socket)?);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(route(Arc::clone(&cells), client, None));
            }
        });
        Ok(())
    }

    /// Creates a volume in a cell, by its own API.
    pub async fn put(&self, cell: usize, name: &str) {
        let spec = serde_json::json!({"name": name, "size_bytes": 1 << 30});
        let spec = serde_json::from_value(spec).expect("the fields are those of a volume");
        self.cells[cell].backend.create_volume(spec).await.expect("the name is free");
    }

    /// What a cell's own API serves.
    pub fn backend(&self, cell: usize) -> &MemoryBackend {
        &self.cells[cell].backend
    }

    /// Whether a cell has a volume.
    pub async fn has(&self, cell: usize, name: &str) -> bool {
        self.cells[cell].backend.volume(name.to_owned()).await.is_ok()
    }
}

impl PoolCells for MemoryCells {
    fn count(&self) -> u16 {
        u16::try_from(self.cells.len()).expect("tests have few cells")
    }

    async fn connect(&self, cell: CellId) -> io::Result<BoxedStream> {
        let cell = &self.cells[usize::from(cell.0)];
        cell.connections.fetch_add(1, Ordering::Relaxed);
        let (near, mut far) = duplex(64 << 10);
        match &mut *cell.conduct.lock().expect("no holder of the lock panics") {
            CellConduct::Serves | CellConduct::Breaks(0) => {}
            CellConduct::Silent(held) => {
                held.push(far);
                return Ok(Box::new(near));
            }
            CellConduct::Breaks(left) => {
                *left -= 1;
                tokio::spawn(async move { far.read_u8().await });
                return Ok(Box::new(near));
            }
            CellConduct::Nobody => return Err(io::Error::other("nobody is to serve it")),
        }
        let taken = cell.api.send((Box::new(far), None)).await;
        taken.map_err(|_| io::Error::other("its API has ended"))?;
        Ok(Box::new(near))
    }

    async fn cell_of_volume(&self, name: &str) -> Result<Option<CellId>, String> {
        let said = self.said.lock().expect("no holder of the lock panics").pop_front();
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
