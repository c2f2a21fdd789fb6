//! STARTTLS with libnbd's and QEMU's TLS (GnuTLS) on loopback: every mode, right and wrong certificates.

use std::fs;
use std::path::Path;
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use varve_access_nbd::{ServiceOptions, TlsConfig, TlsFiles, TlsMode};
use varve_nbd::constant::{cmd, opt};

use crate::server::{Server, client, run};

const MIB: u64 = 1 << 20;

/// An authority, a server's and a client's certificate, in the files that libnbd and QEMU look for.
fn make_certificates(dir: &Path) {
    let authority_key = KeyPair::generate().unwrap();
    let mut authority = CertificateParams::new(vec![]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&authority_key).unwrap();
    fs::write(dir.join("ca-cert.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    for (role, name) in [("server", "localhost"), ("client", "client")] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        fs::write(dir.join(format!("{role}-cert.pem")), certificate.pem()).unwrap();
        fs::write(dir.join(format!("{role}-key.pem")), key.serialize_pem()).unwrap();
    }
}

struct Tls {
    dir: TempDir,
    server: Server,
}

impl Tls {
    fn start(tls_mode: TlsMode, ask_clients: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        make_certificates(dir.path());
        let files = TlsFiles {
            certificate: dir.path().join("server-cert.pem"),
            key: dir.path().join("server-key.pem"),
            client_authorities: ask_clients.then(|| dir.path().join("ca-cert.pem")),
        };
        let tls = Some(TlsConfig::load(&files).unwrap());
        let options = ServiceOptions { tls_mode, tls, ..ServiceOptions::default() };
        Self { server: Server::start(64 * MIB, 1, &options), dir }
    }

    fn uri(&self, certificates: &Path) -> String {
        let (port, dir) = (self.server.port, certificates.display());
        format!("nbds://localhost:{port}/disk?tls-certificates={dir}")
    }

    fn plain_uri(&self) -> String {
        format!("nbd://localhost:{}/disk", self.server.port)
    }
}

fn fails(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(!output.status.success(), "{command:?} should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn nbdinfo_and_nbdsh_work_over_tls() {
    let (Some(mut nbdinfo), Some(mut nbdsh)) = (client("nbdinfo"), client("nbdsh")) else { return };
    let tls = Tls::start(TlsMode::Allow, false);
    let uri = tls.uri(tls.dir.path());
    let shown = run(nbdinfo.arg(&uri));
    assert!(shown.contains("newstyle-fixed with TLS, using structured packets"), "{shown}");
    let script = format!(
        "h.connect_uri({uri:?})
big = bytes(range(256)) * (32 * 4096)
h.pwrite(big, 0)
h.pwrite(b'x' * 32 * 1024 * 1024, 32 * 1024 * 1024)
assert h.pread(len(big), 0) == big
assert h.pread(32 * 1024 * 1024, 32 * 1024 * 1024) == b'x' * 32 * 1024 * 1024
bufs = [nbd.Buffer.from_bytearray(bytearray([i] * 4096)) for i in range(64)]
for i in range(64):
    h.aio_pwrite(bufs[i], i * 4096)
while h.aio_in_flight() > 0:
    h.poll(-1)
assert h.pread(64 * 4096, 0) == b''.join(bytes([i] * 4096) for i in range(64))
h.shutdown()
print('all good')"
    );
    let printed = run(nbdsh.args(["-c", "h.set_uri_allow_local_file(True)", "-c", &script]));
    assert_eq!(printed.trim(), "all good");
    for usage in tls.server.usages() {
        println!("over TLS: {usage}");
        assert!(usage.used_tls() && usage.used_option(opt::STARTTLS));
    }
}

#[test]
fn plain_clients_are_served_only_where_tls_is_not_required() {
    let Some(mut nbdinfo) = client("nbdinfo") else { return };
    let tls = Tls::start(TlsMode::Allow, false);
    assert_eq!(run(nbdinfo.arg("--size").arg(tls.plain_uri())).trim(), (64 * MIB).to_string());
    let tls = Tls::start(TlsMode::Require, false);
    let why = fails(client("nbdinfo").unwrap().arg("--size").arg(tls.plain_uri()));
    assert!(why.contains("TLS"), "{why}");
    let uri = tls.uri(tls.dir.path());
    assert_eq!(
        run(client("nbdinfo").unwrap().arg("--size").arg(uri)).trim(),
        (64 * MIB).to_string()
    );
}

#[test]
fn a_server_without_tls_refuses_it_and_serves_those_that_can_do_without() {
    let (Some(mut nbdinfo), Some(mut nbdsh)) = (client("nbdinfo"), client("nbdsh")) else { return };
    let server = Server::start(64 * MIB, 1, &ServiceOptions::default());
    let certificates = tempfile::tempdir().unwrap();
    make_certificates(certificates.path());
    let (port, dir) = (server.port, certificates.path().display());
    fails(nbdinfo.arg(format!("nbds://localhost:{port}/disk?tls-certificates={dir}")));
    let usage = server.next_usage();
    assert!(usage.used_option(opt::STARTTLS) && usage.used_option(opt::ABORT), "{usage}");
    let script = format!(
        "h.set_tls(nbd.TLS_ALLOW)
h.set_tls_certificates('{dir}')
h.set_export_name('disk')
h.connect_tcp('localhost', '{port}')
print(h.get_tls_negotiated(), h.get_size())"
    );
    assert_eq!(run(nbdsh.args(["-c", &script])).trim(), "False 67108864");
}

#[test]
fn clients_need_a_certificate_of_the_right_authority_where_asked() {
    let Some(mut nbdinfo) = client("nbdinfo") else { return };
    let tls = Tls::start(TlsMode::Require, true);
    let uri = tls.uri(tls.dir.path());
    assert_eq!(run(nbdinfo.arg("--size").arg(uri)).trim(), (64 * MIB).to_string());
    // A stranger that trusts the server but is signed by somebody else.
    let stranger = tempfile::tempdir().unwrap();
    make_certificates(stranger.path());
    fs::copy(tls.dir.path().join("ca-cert.pem"), stranger.path().join("ca-cert.pem")).unwrap();
    let uri = tls.uri(stranger.path());
    fails(client("nbdinfo").unwrap().arg("--size").arg(uri));
    // The server goes on.
    let uri = tls.uri(tls.dir.path());
    run(client("nbdinfo").unwrap().arg("--size").arg(uri));
}

#[test]
fn qemu_io_works_over_tls() {
    let Some(mut qemu_io) = client("qemu-io") else { return };
    let tls = Tls::start(TlsMode::Require, true);
    let credentials = format!(
        "tls-creds-x509,id=tls0,endpoint=client,dir={},priority=NORMAL",
        tls.dir.path().display()
    );
    let image = format!(
        "driver=nbd,server.type=inet,server.host=localhost,server.port={},export=disk,tls-creds=tls0",
        tls.server.port
    );
    qemu_io.args(["--object", &credentials, "--image-opts", "-c", "write -P 9 0 3M"]);
    let printed = run(qemu_io.args(["-c", "read -P 9 0 3M", &image]));
    assert!(printed.contains("read 3145728/3145728"), "{printed}");
    let usage = tls.server.next_usage();
    println!("qemu-io over TLS: {usage}");
    assert!(usage.used_tls() && usage.requests(cmd::WRITE) > 0);
}

#[test]
fn bad_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    make_certificates(dir.path());
    let good = TlsFiles {
        certificate: dir.path().join("server-cert.pem"),
        key: dir.path().join("server-key.pem"),
        client_authorities: None,
    };
    let absent = TlsFiles { key: dir.path().join("absent.pem"), ..good.clone() };
    assert!(TlsConfig::load(&absent).unwrap_err().to_string().contains("absent.pem"));
    let swapped = TlsFiles { certificate: good.key.clone(), ..good.clone() };
    assert!(TlsConfig::load(&swapped).unwrap_err().to_string().contains("contains no certificate"));
    let stranger = TlsFiles { key: dir.path().join("client-key.pem"), ..good };
    assert!(TlsConfig::load(&stranger).unwrap_err().to_string().contains("set up TLS"));
}
