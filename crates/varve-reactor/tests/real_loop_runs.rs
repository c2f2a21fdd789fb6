//! Goal: the real loop does what the simulated one does, with real files, sockets, threads and time. Method: each
//! behaviour through the public API on temporary files and local sockets.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Instant;

use varve_reactor::net::{SendPart, Socket, TcpListener, UnixListener};
use varve_reactor::{Loop, LoopConfig, Nanos, port};
use varve_stdx::{AlignedBuf, BufSlice};

fn new_loop() -> Loop {
    Loop::new(LoopConfig::default()).unwrap()
}

#[test]
fn tasks_timers_and_yields() {
    let mut real = new_loop();
    let reactor = real.handle();
    let ran = real.run(async move {
        let start = reactor.now();
        let count = Rc::new(Cell::new(0));
        let mut handles = Vec::new();
        for millis in [3, 1, 2] {
            let (reactor, count) = (reactor.clone(), Rc::clone(&count));
            handles.push(reactor.clone().spawn_join(async move {
                reactor.yield_now().await;
                reactor.sleep(Nanos::millis(millis)).await;
                count.set(count.get() + 1);
                millis
            }));
        }
        let mut sum = 0;
        for handle in handles {
            sum += handle.await;
        }
        (sum, count.get(), reactor.now() - start)
    });
    assert_eq!((ran.0, ran.1), (6, 3));
    assert!(ran.2 >= Nanos::millis(3), "timers are not early: {} ns", ran.2);
}

#[test]
fn files_are_written_synced_and_read() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = File::options().read(true).write(true).open(path.path()).unwrap();
    let mut real = new_loop();
    let ring = real.handle().ring().unwrap();
    let file = ring.register(file.into());
    let got = real.run(async move {
        ring.fallocate(&file, 0, 0, 1 << 20).await.unwrap();
        let bytes = BufSlice::copy_from(&[7; 8192]);
        let mut writes = Vec::new();
        for block in 0..2000u64 {
            // More than the queue holds in one turn.
            writes.push(ring.write(&file, block * 512, bytes.slice(0..512), block == 9));
        }
        for write in writes {
            assert_eq!(write.await.0.unwrap(), 512);
        }
        ring.sync_data(&file).await.unwrap();
        drop(ring.read(&file, 0, AlignedBuf::zeroed(4096), 4096));
        let (count, buf) = ring.read(&file, 0, AlignedBuf::zeroed(8192), 8000).await;
        assert_eq!(count.unwrap(), 8000);
        buf
    });
    assert!(got[..8000].iter().all(|b| *b == 7));
    assert_eq!(std::fs::metadata(path.path()).unwrap().len(), 1 << 20);
}

#[test]
fn parts_of_a_gathered_write_land_one_behind_the_other() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let file = File::options().read(true).write(true).open(path.path()).unwrap();
    let mut real = new_loop();
    let ring = real.handle().ring().unwrap();
    let file = ring.register(file.into());
    real.run(async move {
        let parts: Vec<_> = (1..=5).map(|byte| BufSlice::copy_from(&[byte; 4096])).collect();
        // Dropped: it goes on all the same, and so do its parts.
        drop(ring.write_gathered(&file, 1 << 20, parts.clone(), false));
        let (count, back) = ring.write_gathered(&file, 4096, parts, true).await;
        assert_eq!((count.unwrap(), back.len()), (5 * 4096, 5));
    });
    drop(real);
    let bytes = std::fs::read(path.path()).unwrap();
    let expected: Vec<u8> = (1..=5).flat_map(|byte| [byte; 4096]).collect();
    assert_eq!(bytes[4096..6 * 4096], expected[..]);
    assert_eq!(bytes[1 << 20..], expected[..]);
}

#[test]
fn other_threads_wake_a_sleeping_loop() {
    let mut real = new_loop();
    let (sender, mut receiver) = port::channel(&real.handle(), 64);
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for number in 0..500 {
                    let mut message = thread * 1000 + number;
                    while let Err(refused) = sender.send(message) {
                        message = refused;
                        std::thread::yield_now();
                    }
                    if number % 50 == 0 {
                        std::thread::sleep(std::time::Duration::from_micros(300));
                    }
                }
            })
        })
        .collect();
    drop(sender);
    let all = real.run(async move {
        let mut all = Vec::new();
        while receiver.recv_batch(&mut all).await > 0 {}
        all
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(all.len(), 2000);
    for thread in 0..4 {
        let mine: Vec<_> = all.iter().filter(|message| **message / 1000 == thread).collect();
        assert!(mine.is_sorted(), "messages of a sender keep their order");
    }
}

#[test]
fn an_idle_loop_does_not_spin() {
    let mut real = new_loop();
    let reactor = real.handle();
    let cpu_before = cpu_micros();
    real.run(async move { reactor.sleep(Nanos::millis(300)).await });
    let used = cpu_micros() - cpu_before;
    assert!(used < 100_000, "{used} µs of CPU in 300 ms of waiting");
}

/// CPU time of this thread.
fn cpu_micros() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse::<u64>().unwrap() / 1000
}

/// Answers each message with its bytes twice, until the stream ends.
async fn echo_twice(socket: Socket) {
    let mut buf = AlignedBuf::zeroed(4096);
    loop {
        let (count, back) = socket.recv(buf, 0..4096).await;
        buf = back;
        let Ok(count @ 1..) = count else { return };
        let small = SendPart::Small(buf[..count].to_vec());
        let slice = SendPart::Slice(BufSlice::copy_from(&buf[..count]));
        socket.send_all(vec![small, SendPart::Small(Vec::new()), slice]).await.unwrap();
    }
}

#[test]
fn unix_sockets_answer_and_vanish() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let mut real = new_loop();
    let listener = UnixListener::bind(&real.handle(), &path).unwrap();
    let client = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(b"abc").unwrap();
            let mut answer = [0; 6];
            stream.read_exact(&mut answer).unwrap();
            answer
        }
    });
    real.run(async move {
        let socket = listener.accept().await.unwrap();
        echo_twice(socket).await;
    });
    assert_eq!(client.join().unwrap(), *b"abcabc");
    assert!(!path.exists());
}

#[test]
fn large_gathered_sends_arrive_whole() {
    let mut real = new_loop();
    let reactor = real.handle();
    let listener = TcpListener::bind(&reactor, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr();
    let client = std::thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    let parts: Vec<Vec<u8>> = (0..3000usize).map(|n| vec![n.to_le_bytes()[0]; 1 + n]).collect();
    let expected = parts.concat();
    real.run(async move {
        let socket = listener.accept().await.unwrap();
        // The connection moves between loops as a plain descriptor.
        let socket = Socket::from_fd(&reactor, socket.into_fd().unwrap()).unwrap();
        let slice = |bytes: &Vec<u8>| SendPart::Slice(BufSlice::copy_from(bytes));
        socket.send_all(parts.iter().map(slice).collect()).await.unwrap();
        socket.shutdown();
    });
    assert_eq!(client.join().unwrap(), expected);
}

#[test]
fn dropping_the_loop_ends_pending_operations_soon() {
    let start = Instant::now();
    let (mut far, near) = UnixStream::pair().unwrap();
    let mut real = new_loop();
    let reactor = real.handle();
    let socket = Socket::from_fd(&reactor, near.into()).unwrap();
    reactor.spawn(async move {
        let _never = socket.recv(AlignedBuf::zeroed(4096), 0..4096).await;
    });
    let later = reactor.clone();
    real.run(async move { later.sleep(1_000_000).await });
    drop(real);
    assert!(start.elapsed().as_secs() < 5);
    // The last reference to the socket is gone: the peer sees the end.
    assert_eq!(far.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn shutdown_ends_a_pending_receive() {
    let (_far, near) = UnixStream::pair().unwrap();
    let mut real = new_loop();
    let reactor = real.handle();
    let socket = Socket::from_fd(&reactor, near.into()).unwrap();
    let count = real.run(async move {
        let receive = socket.recv(AlignedBuf::zeroed(4096), 0..4096);
        let receive = reactor.spawn_join(receive);
        reactor.sleep(100_000).await;
        socket.shutdown();
        receive.await.0
    });
    assert_eq!(count.unwrap(), 0);
}
