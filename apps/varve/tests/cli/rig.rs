//! Runs the binary, against an admin API over a memory backend where a command needs a daemon.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, mpsc};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::oneshot;
use varve_access_admin::{
    Callers, LimitsConfig, ListenAddress, Listener, MemoryBackend, Token, serve,
};

/// Bytes of the token that callers by TCP show.
const TOKEN: [u8; 32] = [3; 32];

/// What a run of the binary left.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The output of a run that succeeded and complained of nothing.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self.stdout
    }

    /// The same as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// What a run that ended with `code` and printed nothing had to say.
    #[track_caller]
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{}", self.stderr);
        self.stderr
    }
}

/// Runs the binary with no daemon around.
pub(crate) fn varve(arguments: &[&str]) -> Run {
    varve_in(Path::new("."), arguments)
}

/// Runs the binary in a directory.
pub(crate) fn varve_in(directory: &Path, arguments: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_varve"));
    let Output { status, stdout, stderr } =
        command.args(arguments).current_dir(directory).output().unwrap();
    Run {
        code: status.code().unwrap(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// An admin API over a memory backend, stopped by dropping it.
pub(crate) struct Api {
    dir: TempDir,
    tcp: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Api {
    /// Holds volume `busy` of 1 GiB, which a client has open.
    pub(crate) fn start() -> Self {
        Self::over(MemoryBackend::with_open_volume("busy", 1 << 30))
    }

    /// Serves a backend.
    pub(crate) fn over(backend: MemoryBackend) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("admin.sock");
        std::fs::write(dir.path().join("admin.token"), Token::of(TOKEN).text()).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (started, start) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let unix = Listener::bind(&ListenAddress::Unix(socket)).await.unwrap();
                let tcp = Listener::bind(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
                started.send(tcp.address().to_string()).unwrap();
                let stop = async {
                    let _ = stopped.await;
                };
                let token = Some(Arc::new(Token::of(TOKEN)));
                let callers = Callers { listeners: vec![unix, tcp], accepted: None, token };
                serve(callers, Arc::new(backend), LimitsConfig::default(), stop).await;
            });
        });
        let tcp = start.recv().unwrap();
        Self { dir, tcp, stop: Some(stop), thread: Some(thread) }
    }

    /// Runs the binary as a client of this API, found by its data directory.
    pub(crate) fn varve(&self, arguments: &[&str]) -> Run {
        let mut all = vec!["--data", self.dir.path().to_str().unwrap()];
        all.extend(arguments);
        varve(&all)
    }

    /// Path of the file with the token for callers by TCP.
    pub(crate) fn token(&self) -> PathBuf {
        self.dir.path().join("admin.token")
    }

    /// `IP:PORT` of the API.
    pub(crate) fn tcp(&self) -> &str {
        &self.tcp
    }

    /// Path of its socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("admin.sock")
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let joined = thread.join();
            assert!(joined.is_ok() || thread::panicking(), "the API ended in order");
        }
    }
}
