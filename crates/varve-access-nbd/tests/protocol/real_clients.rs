//! Programs that people use, against a real server on real sockets: each does its work, and uses what the table in
//! `docs/nbd.md` says. A client that is not installed is skipped with a line that says so.

use std::fs;
use std::path::Path;

use varve_access_block::Export;
use varve_access_nbd::{ClientUsage, ServiceOptions};
use varve_nbd::constant::{cmd, flag, opt};

use crate::server::{Server, client, run};

const MIB: u64 = 1 << 20;

fn serve() -> Server {
    Server::start(64 * MIB, 1, &ServiceOptions::default())
}

/// Prints what a client used; `cargo test -- --nocapture` shows the table of the documentation.
fn report(client: &str, usage: &ClientUsage) {
    println!("{client}: {usage}");
}

#[test]
fn nbdinfo_shows_lists_and_maps() {
    let Some(mut nbdinfo) = client("nbdinfo") else { return };
    let server = serve();
    let shown = run(nbdinfo.arg(server.uri()));
    for expected in [
        "export-size: 67108864",
        "base:allocation",
        "can_multi_conn: true",
        "block_size_maximum: 33554432",
    ] {
        assert!(shown.contains(expected), "{expected} is missing in:\n{shown}");
    }
    server.usages().iter().for_each(|usage| report("nbdinfo", usage));
    let listed = run(client("nbdinfo").unwrap().arg("--list").arg(server.uri()));
    assert!(listed.contains("export=\"disk\""), "{listed}");
    server.usages().iter().for_each(|usage| report("nbdinfo --list", usage));
    let mapped = run(client("nbdinfo").unwrap().arg("--map").arg(server.uri()));
    assert_eq!(mapped.split_whitespace().collect::<Vec<_>>(), ["0", "67108864", "3", "hole,zero"]);
    let usage = server.next_usage();
    report("nbdinfo --map", &usage);
    assert!(usage.agreed().contexts.allocation && usage.requests(cmd::BLOCK_STATUS) > 0);
}

#[test]
fn nbdsh_uses_every_command() {
    let Some(mut nbdsh) = client("nbdsh") else { return };
    let server = serve();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nbdsh.py");
    let start = format!("uri = {:?}\nexec(open({:?}).read())", server.uri(), script);
    assert_eq!(
        run(nbdsh.arg("-n").arg("-c").arg("import nbd").arg("-c").arg(start)).trim(),
        "all good"
    );
    let usage = server.next_usage();
    report("nbdsh", &usage);
    for command in cmd::READ..=cmd::BLOCK_STATUS {
        assert!(usage.requests(command) > 0, "command {command} was not used");
    }
    let all = flag::FUA | flag::NO_HOLE | flag::DF | flag::REQ_ONE | flag::FAST_ZERO;
    assert_eq!(usage.flags() & !flag::PAYLOAD_LEN, all, "newer ones announce payload as well");
}

#[test]
fn qemu_io_reads_back_its_patterns() {
    let Some(mut qemu_io) = client("qemu-io") else { return };
    let server = serve();
    let steps = [
        "write -P 1 0 1M",
        "write -P 2 513 1023",
        "write -f -P 3 40M 4k",
        "write -z 64k 64k",
        "write -z -u 192k 64k",
        "discard 256k 64k",
        "aio_write -P 4 2M 3M",
        "aio_write -P 5 8M 64k",
        "aio_flush",
        "flush",
        "read -P 1 0 512",
        "read -P 2 513 1023",
        "read -P 3 40M 4k",
        "read -P 0 64k 64k",
        "read -P 0 192k 64k",
        "read -P 0 256k 64k",
        "read -P 4 2M 3M",
        "read -P 5 8M 64k",
    ];
    qemu_io.args(["-f", "raw", "-t", "none"]);
    for step in steps {
        qemu_io.args(["-c", step]);
    }
    let printed = run(qemu_io.arg(server.uri()));
    assert!(!printed.contains("failed") && !printed.contains("error"), "{printed}");
    let usage = server.next_usage();
    report("qemu-io", &usage);
    assert!(usage.agreed().framing.has_chunks() && usage.agreed().contexts.allocation);
    for command in [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES, cmd::FLUSH, cmd::DISC] {
        assert!(usage.requests(command) > 0, "command {command} was not used");
    }
}

/// 24 MiB of data and holes, and a length that is no multiple of 4 KiB.
fn sparse_image(path: &Path) {
    let mut image = vec![0u8; (24 << 20) + 512];
    for (block, bytes) in image.chunks_mut(65536).enumerate().filter(|(block, _)| block % 3 == 0) {
        bytes
            .iter_mut()
            .enumerate()
            .for_each(|(i, byte)| *byte = u8::try_from((i * 31 + block) % 251).unwrap());
    }
    fs::write(path, image).unwrap();
}

#[test]
fn qemu_img_converts_there_and_back() {
    let Some(mut there) = client("qemu-img") else { return };
    let server = serve();
    let (image, back) = (server.dir.path().join("image"), server.dir.path().join("back"));
    sparse_image(&image);
    server.export.resize(24 * MIB + 512);
    run(there.args(["convert", "-n", "-f", "raw", "-O", "raw"]).arg(&image).arg(server.uri()));
    server.usages().iter().for_each(|usage| report("qemu-img convert to", usage));
    let compare = ["compare", "-f", "raw", "-F", "raw"];
    run(client("qemu-img").unwrap().args(compare).arg(&image).arg(server.uri()));
    server.usages().iter().for_each(|usage| report("qemu-img compare", usage));
    let convert = ["convert", "-f", "raw", "-O", "raw"];
    run(client("qemu-img").unwrap().args(convert).arg(server.uri()).arg(&back));
    let usages = server.usages();
    usages.iter().for_each(|usage| report("qemu-img convert from", usage));
    assert!(usages.iter().any(|usage| usage.requests(cmd::BLOCK_STATUS) > 0));
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap(), "the copies differ");
}

#[test]
fn nbdcopy_copies_both_ways_over_several_connections() {
    let Some(mut there) = client("nbdcopy") else { return };
    let server = Server::start(24 * MIB + 512, 2, &ServiceOptions::default());
    let (image, back) = (server.dir.path().join("image"), server.dir.path().join("back"));
    sparse_image(&image);
    run(there.args(["--connections=4", "--threads=4", "--flush"]).arg(&image).arg(server.uri()));
    server.usages().iter().for_each(|usage| report("nbdcopy to", usage));
    run(client("nbdcopy")
        .unwrap()
        .args(["--connections=4", "--threads=4"])
        .arg(server.uri())
        .arg(&back));
    let usages = server.usages();
    usages.iter().for_each(|usage| report("nbdcopy from", usage));
    assert!(usages.len() > 1, "one connection of several");
    assert!(fs::read(&image).unwrap() == fs::read(&back).unwrap(), "the copies differ");
}

#[test]
fn nbd_client_lists_exports() {
    let Some(mut nbd_client) = client("nbd-client") else { return };
    let server = serve();
    let listed = run(nbd_client.args(["-l", "127.0.0.1", &server.port.to_string()]));
    assert!(listed.lines().any(|line| line == "disk"), "{listed}");
    let usage = server.next_usage();
    report("nbd-client -l", &usage);
    assert!(usage.used_option(opt::LIST));
    let listed = run(client("nbd-client").unwrap().args(["-l", "-unix"]).arg(server.socket()));
    assert!(listed.lines().any(|line| line == "disk"), "{listed}");
}

#[test]
fn qemu_nbd_describes_and_nbdkit_passes_on() {
    let server = serve();
    if let Some(mut qemu_nbd) = client("qemu-nbd") {
        let listed = run(qemu_nbd.arg("--list").arg("-k").arg(server.socket()));
        assert!(
            listed.contains("export: 'disk'") && listed.contains("base:allocation"),
            "{listed}"
        );
        report("qemu-nbd --list", &server.next_usage());
    }
    let (Some(mut nbdkit), Some(_)) = (client("nbdkit"), client("nbdinfo")) else { return };
    nbdkit.args(["-U", "-", "nbd"]).arg(format!("uri={}", server.uri()));
    let shown = run(nbdkit.args(["--run", "nbdinfo --size \"$uri\""]));
    assert_eq!(shown.trim(), "67108864");
    report("nbdkit nbd", &server.next_usage());
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(mut fio) = client("fio") else { return };
    if !run(fio.arg("--enghelp")).lines().any(|line| line.trim() == "nbd") {
        println!("SKIPPED: this `fio` has no nbd engine");
        return;
    }
    let server = serve();
    let uri = format!("--uri={}", server.uri());
    for shape in [["--rw=randrw", "--bs=4k"], ["--rw=randwrite", "--bsrange=512-128k"]] {
        let mut fio = client("fio").unwrap();
        fio.args(["--name=t", "--ioengine=nbd", &uri, "--size=32M", "--iodepth=32"]).args(shape);
        fio.args(["--verify=crc32c", "--verify_fatal=1", "--randseed=7"]);
        let printed = run(fio.current_dir(server.dir.path()));
        assert!(printed.contains("err= 0"), "{printed}");
        server.usages().iter().for_each(|usage| report("fio", usage));
    }
}

#[test]
fn libnbd_starts_the_server_by_socket_activation() {
    let Some(mut nbdsh) = client("nbdsh") else { return };
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.pop();
    program.push("examples/memory_server");
    if !program.exists() {
        println!("SKIPPED: the example server is not built; run `cargo test -p varve-access-nbd`");
        return;
    }
    let command =
        format!("h.connect_systemd_socket_activation([{program:?}, 'unix:unused', '3MiB', '1'])");
    let printed = run(nbdsh.args(["-c", &command, "-c", "print(h.get_size())"]));
    assert_eq!(printed.lines().last(), Some("3145728"), "{printed}");
}

#[test]
fn a_resized_export_shows_its_size_to_the_next_client() {
    let Some(mut nbdinfo) = client("nbdinfo") else { return };
    let server = serve();
    server.export.resize(100 * MIB);
    assert_eq!(server.export.info().size_bytes, 100 * MIB);
    assert_eq!(run(nbdinfo.arg("--size").arg(server.uri())).trim(), (100 * MIB).to_string());
}
