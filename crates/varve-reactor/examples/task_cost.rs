//! Prints what a spawn with its poll, a wake with its poll, a message between threads and an operation of the ring
//! cost. Run: `cargo run --release -p varve-reactor --example task_cost`.
#![expect(clippy::unwrap_used, reason = "an example")]

use std::fs::File;
use std::time::Instant;

use varve_reactor::{Loop, LoopConfig, port};
use varve_stdx::BufSlice;

const ROUNDS: u32 = 200;
const BATCH: u32 = 1_000;

fn main() {
    let mut real = Loop::new(LoopConfig::default()).unwrap();
    let reactor = real.handle();
    let spawn = real.run(async move {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            for _ in 0..BATCH {
                reactor.spawn(async {});
            }
            reactor.yield_now().await;
        }
        start.elapsed() / (ROUNDS * BATCH)
    });
    let reactor = real.handle();
    let wake = real.run(async move {
        let start = Instant::now();
        for _ in 0..ROUNDS * BATCH {
            reactor.yield_now().await;
        }
        start.elapsed() / (ROUNDS * BATCH)
    });
    let (sender, mut receiver) = port::channel(&real.handle(), 1024);
    let thread = std::thread::spawn(move || {
        for number in 0..ROUNDS * BATCH {
            while sender.send(number).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let message = real.run(async move {
        let (start, mut all) = (Instant::now(), Vec::new());
        while receiver.recv_batch(&mut all).await > 0 {
            all.clear();
        }
        start.elapsed() / (ROUNDS * BATCH)
    });
    thread.join().unwrap();
    println!("spawn and poll {spawn:?}, yield and poll {wake:?}, message {message:?}");
    for depth in [1, 32] {
        let (reactor, ring) = (real.handle(), real.handle().ring().unwrap());
        let null = ring.register(File::options().write(true).open("/dev/null").unwrap().into());
        let each = real.run(async move {
            let bytes = BufSlice::copy_from(&[0; 4096]);
            let start = Instant::now();
            let writers: Vec<_> = (0..depth)
                .map(|_| {
                    let (ring, null, bytes) = (ring.clone(), null.clone(), bytes.clone());
                    reactor.spawn_join(async move {
                        for _ in 0..ROUNDS * BATCH / depth {
                            ring.write(&null, 0, bytes.clone(), false).await.0.unwrap();
                        }
                    })
                })
                .collect();
            for writer in writers {
                writer.await;
            }
            start.elapsed() / (ROUNDS * BATCH)
        });
        println!("write to /dev/null at depth {depth} {each:?}");
    }
}
