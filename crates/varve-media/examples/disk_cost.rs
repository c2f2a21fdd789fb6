//! Prints what durable writes and reads of one file cost: time and CPU an operation, by size, depth and preparation.
//! Run: `cargo run --release -p varve-media --example disk_cost -- DIRECTORY`.
#![expect(clippy::unwrap_used, reason = "an example")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use varve_media::{Disk, Persist, UringDisk};
use varve_reactor::{Loop, LoopConfig};
use varve_stdx::{BufSlice, Rng};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Prepare {
    Sparse,
    Allocated,
    Written,
}

const FILE_BYTES: u64 = 256 << 20;

fn prepare(path: &Path, how: Prepare) {
    let file = File::create(path).unwrap();
    file.set_len(FILE_BYTES).unwrap();
    if how == Prepare::Written {
        let zeros = vec![0; 1 << 20];
        (0..FILE_BYTES >> 20).for_each(|mib| file.write_all_at(&zeros, mib << 20).unwrap());
    }
    file.sync_all().unwrap();
}

fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

fn main() {
    let directory = std::env::args().nth(1).unwrap();
    let path = Path::new(&directory).join("disk_cost");
    for (how, len, depth, count) in [
        (Prepare::Written, 4 << 10, 1, 2000),
        (Prepare::Allocated, 4 << 10, 1, 500),
        (Prepare::Written, 4 << 10, 4, 4000),
        (Prepare::Written, 32 << 10, 2, 2000),
        (Prepare::Written, 128 << 10, 2, 1000),
        (Prepare::Sparse, 4 << 20, 2, 60),
        (Prepare::Allocated, 4 << 20, 2, 60),
        (Prepare::Written, 4 << 20, 2, 60),
    ] {
        prepare(&path, how);
        let mut real = Loop::new(LoopConfig::default()).unwrap();
        let reactor = real.handle();
        if how == Prepare::Allocated {
            let file = File::options().write(true).open(&path).unwrap();
            let ring = reactor.ring().unwrap();
            let file = ring.register(file.into());
            let start = Instant::now();
            real.run(async move { ring.fallocate(&file, 0, 0, FILE_BYTES).await.unwrap() });
            println!("fallocate of 256 MiB {:?}", start.elapsed());
        }
        let disk = UringDisk::open(&reactor, &path).unwrap();
        for reads in [false, true] {
            let disk = disk.clone();
            let reactor = real.handle();
            let (wall, cpu) = real.run(async move {
                let mut noise = vec![0; len];
                Rng::new(1).fill(&mut noise);
                let bytes = BufSlice::copy_from(&noise);
                let (start, cpu) = (Instant::now(), cpu_nanos());
                let mut tasks = Vec::new();
                for task in 0..depth {
                    let (disk, bytes) = (disk.clone(), bytes.clone());
                    tasks.push(reactor.spawn_join(async move {
                        for index in (task..count).step_by(depth) {
                            let offset = (index * len) as u64 % FILE_BYTES;
                            if reads {
                                disk.read(offset, len).await.unwrap();
                            } else {
                                disk.write(offset, bytes.clone(), Persist::Durable).await.unwrap();
                            }
                        }
                    }));
                }
                for task in tasks {
                    task.await;
                }
                let each = |nanos: u128| nanos / count as u128;
                (each(start.elapsed().as_nanos()), each(u128::from(cpu_nanos() - cpu)))
            });
            let what = if reads { "read " } else { "write" };
            println!(
                "{what} {how:?} {} KiB depth {depth}: {wall} ns wall, {cpu} ns CPU",
                len >> 10
            );
        }
    }
    std::fs::remove_file(&path).unwrap();
}
