//! Stands between a command and the admin socket of a daemon: sees every request, and loses requests or answers.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;

use crate::daemon::Home;

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    Pass,
    /// The daemon does not get it.
    Lost,
    /// The daemon does what it says, and the command is not told.
    AnswerLost,
}

/// A request of the command.
pub(crate) struct Asked {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) body: Value,
}

impl Asked {
    /// A step of a move.
    pub(crate) fn is_step(&self) -> bool {
        self.line.starts_with("POST ") && self.line.ends_with("/move")
    }

    /// The step after which clients use the target's volume or bucket.
    pub(crate) fn is_last_step(&self) -> bool {
        self.is_step()
            && self.body["before"]["state"] == "arriving"
            && (self.body["last"].is_string() || self.body["from_number"].is_u64())
    }

    /// The step after which the source's volume refuses writes.
    pub(crate) fn is_fence(&self) -> bool {
        self.is_step() && self.body["after"]["state"] == "leaving"
    }
}

/// How a query says where something has to be on its way.
pub(crate) fn expects(moves: &Value) -> String {
    let json = moves.to_string();
    let encoded: String = json.bytes().map(|byte| format!("%{byte:02x}")).collect();
    format!("expects={encoded}")
}

/// The socket of a daemon.
pub(crate) fn admin_socket(home: &Home) -> PathBuf {
    home.path().join("varve-data/admin.sock")
}

/// Listens for a daemon until the test ends; its address. What becomes of each request, `fate` says when it comes.
pub(crate) fn between(
    home: &Home,
    mut fate: impl FnMut(&Asked) -> Fate + Send + 'static,
) -> String {
    let (path, daemon) = (home.path().join("between.sock"), admin_socket(home));
    // One from earlier in the test is in the way.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let request = read_message(&mut client);
            let fate = fate(&parse(&request));
            if fate == Fate::Lost {
                continue;
            }
            let answer = exchange(&daemon, &request);
            if fate == Fate::Pass {
                // A command that was ended does not read it.
                let _ = client.write_all(&answer);
            }
        }
    });
    format!("unix:{}", path.display())
}

fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

/// A whole request: its head, and as much as that says.
fn read_message(stream: &mut UnixStream) -> Vec<u8> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(head) = head_len(&bytes) {
            let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
            let len = text.lines().find_map(|line| line.strip_prefix("content-length: "));
            if bytes.len() >= head + len.map_or(0, |len| len.trim().parse::<usize>().unwrap()) {
                return bytes;
            }
        }
        match stream.read(&mut part).unwrap() {
            0 => return bytes,
            len => bytes.extend(&part[..len]),
        }
    }
}

fn parse(request: &[u8]) -> Asked {
    let head = head_len(request).unwrap_or(request.len());
    let text = String::from_utf8_lossy(&request[..head]).into_owned();
    let line = text.lines().next().unwrap_or_default().replace(" HTTP/1.1", "");
    Asked { line, body: serde_json::from_slice(&request[head..]).unwrap_or(Value::Null) }
}

/// Sends a request to a daemon; its whole answer.
fn exchange(daemon: &Path, request: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(daemon).unwrap();
    let (line, rest) = request.split_at(request.windows(2).position(|w| w == b"\r\n").unwrap());
    stream.write_all(&[line, b"\r\nconnection: close", rest].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// Calls the admin API of a daemon; status and body.
pub(crate) fn call(home: &Home, method: &str, path: &str, body: &Value) -> (u16, Value) {
    call_at(&admin_socket(home), method, path, body)
}

/// The same by the path of its socket.
pub(crate) fn call_at(daemon: &Path, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(daemon, request.as_bytes());
    let head = head_len(&answer).unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, serde_json::from_slice(&answer[head..]).unwrap_or(Value::Null))
}
