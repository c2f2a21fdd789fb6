//! Makes a bucket, or puts or gets objects of one size over S3 by many connections for some seconds, and prints rate
//! and latencies as JSON.
//!
//! `AWS_ACCESS_KEY_ID=… AWS_SECRET_ACCESS_KEY=… cargo run --release -p varve-tool-bench --example s3_load --
//! put --address 127.0.0.1:9000 --bucket b --size 4096`; what `put` prints as `counts` is what `get` is to be told, so
//! that it knows the keys.
//!
//! Each connection is a thread that sends the next request when the answer has come. A put makes a new key; every 4 KiB
//! of its body are stamped, so no two blocks are equal, and do not compress. `files` puts files of this machine
//! instead, each once. The body's SHA-256 is signed, and so checked by the server, unless `--unsigned`. A get takes an
//! object at random, uniformly, and looks at each stamp.

mod files;

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use hdrhistogram::Histogram;
use time::OffsetDateTime;
use varve_stdx::{Rng, checksum64};
use varve_tool_bench::s3::{Head, ResponseHead, S3Connection, Signer, sha256};

/// A stamp stands at each multiple of this.
const STAMP_EVERY: usize = 4096;
const STAMP_BYTES: usize = 16;
/// Bytes of a body that are read at once, a multiple of the stamps' distance.
const PIECE_BYTES: usize = 256 << 10;
/// A load that fails this often is not worth measuring.
const ERRORS_MAX: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verb {
    /// Makes the bucket.
    Make,
    Put,
    Get,
    /// Puts files.
    Files,
}

/// Puts or gets objects for some seconds.
#[derive(Parser)]
struct Arguments {
    verb: Verb,
    /// Host and port of the server, which speaks plain HTTP.
    #[arg(long)]
    address: String,
    #[arg(long)]
    bucket: String,
    /// Begin of all keys; another one for each load of puts.
    #[arg(long, default_value = "load")]
    prefix: String,
    /// Bytes of an object.
    #[arg(long, default_value_t = 4096)]
    size: usize,
    #[arg(long, default_value_t = 32)]
    connections: u32,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// For put: how many objects each connection makes at most.
    #[arg(long, default_value_t = u64::MAX)]
    objects: u64,
    /// For get: how many objects each connection of put has made.
    #[arg(long, value_delimiter = ',')]
    counts: Vec<u64>,
    /// For files: where they are.
    #[arg(long, default_value = "/usr")]
    from: PathBuf,
    /// For files: how many bytes of them.
    #[arg(long, default_value_t = 1 << 30)]
    bytes: u64,
    /// Do not sign the hash of a body.
    #[arg(long)]
    unsigned: bool,
}

/// What a thread has seen.
struct Seen {
    latency_us: Histogram<u64>,
    /// Of bodies.
    bytes: u64,
    errors: u64,
}

/// Files that are to be put, and how many were taken.
struct Files {
    paths: Vec<PathBuf>,
    taken: AtomicUsize,
}

impl Files {
    /// Number of one that nobody has put.
    fn next(&self) -> Option<usize> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        (number < self.paths.len()).then_some(number)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    if arguments.verb == Verb::Get && arguments.counts.iter().sum::<u64>() == 0 {
        return Err("get needs --counts with at least one object".into());
    }
    let (access, secret) =
        (std::env::var("AWS_ACCESS_KEY_ID")?, std::env::var("AWS_SECRET_ACCESS_KEY")?);
    let signer = Signer::new(access, secret, arguments.address.clone());
    if arguments.verb == Verb::Make {
        return Ok(make(&arguments, signer)?);
    }
    let paths = match arguments.verb {
        Verb::Files => files::pick(&arguments.from, arguments.bytes)?,
        Verb::Make | Verb::Put | Verb::Get => Vec::new(),
    };
    let files = Files { paths, taken: AtomicUsize::new(0) };
    let first_error = Mutex::new(None);
    let begun = Instant::now();
    let until = begun + Duration::from_secs_f64(arguments.seconds);
    let seen: Vec<Seen> = thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.connections)
            .map(|number| {
                let worker = Worker::new(&arguments, &files, signer.clone(), number);
                scope.spawn(|| worker.run(until, &first_error))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    if let Ok(Some(error)) = first_error.into_inner() {
        eprintln!("first error: {error}");
    }
    print(&seen, seconds)?;
    Ok(())
}

/// Makes the bucket.
fn make(arguments: &Arguments, mut signer: Signer) -> io::Result<()> {
    let mut connection = S3Connection::open(&arguments.address)?;
    let head = head(&mut signer, "PUT", &format!("/{}", arguments.bucket), &sha256(&[]), 0);
    let answer = connection.request(&head, &[])?;
    if answer.status == 200 { Ok(()) } else { Err(refused(&mut connection, answer)) }
}

fn print(seen: &[Seen], seconds: f64) -> Result<(), hdrhistogram::AdditionError> {
    let mut latency_us = histogram();
    for one in seen {
        latency_us.add(&one.latency_us)?;
    }
    let requests = latency_us.len();
    let document = serde_json::json!({
        "requests": requests,
        "errors": seen.iter().map(|one| one.errors).sum::<u64>(),
        "bytes": seen.iter().map(|one| one.bytes).sum::<u64>(),
        "seconds": seconds,
        "p50_us": latency_us.value_at_quantile(0.5),
        "p99_us": latency_us.value_at_quantile(0.99),
        "p999_us": latency_us.value_at_quantile(0.999),
        "max_us": latency_us.max(),
        "counts": seen.iter().map(|one| one.latency_us.len()).collect::<Vec<_>>(),
    });
    println!("{document}");
    Ok(())
}

/// From 1 µs to 10 minutes in three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).expect("the bounds are good ones")
}

/// One connection.
struct Worker<'a> {
    arguments: &'a Arguments,
    files: &'a Files,
    signer: Signer,
    number: u32,
    rng: Rng,
    connection: Option<S3Connection>,
    /// The next body of a put; what a get reads.
    body: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(arguments: &'a Arguments, files: &'a Files, signer: Signer, number: u32) -> Self {
        let seed = checksum64(arguments.prefix.as_bytes()) ^ u64::from(number);
        let mut rng = Rng::new(seed);
        let mut body =
            vec![0; if arguments.verb == Verb::Put { arguments.size } else { PIECE_BYTES }];
        rng.fill(&mut body);
        Self { arguments, files, signer, number, rng, connection: None, body }
    }

    /// Sends requests until the time is over, or too many failed.
    fn run(mut self, until: Instant, first_error: &Mutex<Option<io::Error>>) -> Seen {
        let mut seen = Seen { latency_us: histogram(), bytes: 0, errors: 0 };
        let requests_max =
            if self.arguments.verb == Verb::Put { self.arguments.objects } else { u64::MAX };
        while Instant::now() < until
            && seen.errors < ERRORS_MAX
            && seen.latency_us.len() < requests_max
        {
            let begun = Instant::now();
            let done = match self.arguments.verb {
                Verb::Put => self.put(seen.latency_us.len()).map(Some),
                Verb::Files => self.put_file(),
                Verb::Get | Verb::Make => self.get().map(Some),
            };
            match done {
                Ok(None) => break,
                Ok(Some(bytes)) => {
                    seen.bytes += bytes;
                    let us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                    seen.latency_us.saturating_record(us);
                }
                Err(error) => {
                    self.connection = None;
                    seen.errors += 1;
                    if let Ok(mut first) = first_error.lock() {
                        first.get_or_insert(error);
                    }
                }
            }
        }
        seen
    }

    /// Puts a file; its length, or none when all are put.
    fn put_file(&mut self) -> io::Result<Option<u64>> {
        let Some(number) = self.files.next() else { return Ok(None) };
        self.body = std::fs::read(&self.files.paths[number])?;
        self.send(&self.path(0, number as u64)).map(Some)
    }

    fn put(&mut self, index: u64) -> io::Result<u64> {
        let number = self.number;
        for (block, bytes) in self.body.chunks_mut(STAMP_EVERY).enumerate() {
            if let Some(place) = bytes.first_chunk_mut() {
                *place = stamp(number, index, block);
            }
        }
        self.send(&self.path(number, index))
    }

    /// Puts the body; its length.
    fn send(&mut self, path: &str) -> io::Result<u64> {
        let payload = if self.arguments.unsigned {
            "UNSIGNED-PAYLOAD".to_owned()
        } else {
            sha256(&self.body)
        };
        let head = head(&mut self.signer, "PUT", path, &payload, self.body.len());
        let connection = connected(&mut self.connection, &self.arguments.address)?;
        let answer = connection.request(&head, &self.body)?;
        if answer.status != 200 {
            return Err(refused(connection, answer));
        }
        connection.skip(answer)?;
        Ok(self.body.len() as u64)
    }

    fn get(&mut self) -> io::Result<u64> {
        let (number, index) = self.pick();
        let path = self.path(number, index);
        let head = head(&mut self.signer, "GET", &path, &sha256(&[]), 0);
        let connection = connected(&mut self.connection, &self.arguments.address)?;
        let answer = connection.request(&head, &[])?;
        if answer.status != 200 || answer.length != Some(self.arguments.size as u64) {
            return Err(refused(connection, answer));
        }
        let mut block = 0;
        let mut left = self.arguments.size;
        while left > 0 {
            let piece = &mut self.body[..left.min(PIECE_BYTES)];
            connection.read(piece)?;
            left -= piece.len();
            for bytes in piece.chunks(STAMP_EVERY) {
                if bytes.first_chunk().is_some_and(|found| *found != stamp(number, index, block)) {
                    return Err(io::Error::other(format!(
                        "wrong bytes in block {block} of object {index} of {number}"
                    )));
                }
                block += 1;
            }
        }
        Ok(self.arguments.size as u64)
    }

    /// An object that a put has made.
    fn pick(&mut self) -> (u32, u64) {
        let mut place = self.rng.below(self.arguments.counts.iter().sum());
        for (number, count) in (0..).zip(&self.arguments.counts) {
            if place < *count {
                return (number, place);
            }
            place -= count;
        }
        unreachable!("the place is below the sum of all counts")
    }

    fn path(&self, number: u32, index: u64) -> String {
        format!("/{}/{}/{number:03}/{index:08}", self.arguments.bucket, self.arguments.prefix)
    }
}

fn connected<'a>(
    connection: &'a mut Option<S3Connection>,
    address: &str,
) -> io::Result<&'a mut S3Connection> {
    if connection.is_none() {
        *connection = Some(S3Connection::open(address)?);
    }
    connection.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// What tells a block from every other one of a load.
fn stamp(number: u32, index: u64, block: usize) -> [u8; STAMP_BYTES] {
    let block = u32::try_from(block).unwrap_or(u32::MAX);
    let mut bytes = [0; STAMP_BYTES];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes[4..8].copy_from_slice(&block.to_le_bytes());
    bytes[8..].copy_from_slice(&index.to_le_bytes());
    bytes
}

/// A signed head without a query.
fn head(signer: &mut Signer, method: &str, path: &str, payload: &str, length: usize) -> String {
    let (length, now) = (length as u64, OffsetDateTime::now_utc());
    signer.head(Head { method, path, query: "", payload, length, now })
}

fn refused(
    connection: &mut S3Connection,
    ResponseHead { status, length }: ResponseHead,
) -> io::Error {
    let mut text =
        vec![0; usize::try_from(length.unwrap_or(0)).map_or(1000, |length| length.min(1000))];
    let read = connection.read(&mut text);
    io::Error::other(format!(
        "status {status}, {length:?} bytes: {:?} {}",
        read.err(),
        String::from_utf8_lossy(&text)
    ))
}
