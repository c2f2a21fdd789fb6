//! What `varve serve` prints once it serves: where, and the next two commands to type.

use std::io::{self, Write};

use varve_access_admin::ListenAddress;
use varve_types::PoolId;

use crate::config::{DATA_DEFAULT, Settings, TlsSettings};
use crate::notify;

/// Prints that another node serves the pool, and where that is.
pub(crate) fn print_standby(pool: PoolId, owner: &str) {
    let state = format!("stands by for pool {pool}: it is served at {owner}");
    let text = format!("varve {} {state}\n", env!("CARGO_PKG_VERSION"));
    notify::ready(&state);
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints to standard output. A closed one is no reason not to serve.
pub(crate) fn print(
    settings: &Settings,
    pool: &str,
    nbd: &[ListenAddress],
    admin: &[ListenAddress],
) {
    let admin: Vec<String> = admin.iter().map(ToString::to_string).collect();
    let text = text(settings, pool, nbd, &admin);
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

fn text(settings: &Settings, pool: &str, nbd: &[ListenAddress], admin: &[String]) -> String {
    let data = settings.data.display().to_string();
    let flag = if data == DATA_DEFAULT { String::new() } else { format!(" --data {data}") };
    let joined: Vec<String> = nbd.iter().map(ToString::to_string).collect();
    let attach = nbd.last().map_or(String::new(), |address| attach(address, &settings.nbd.tls));
    format!(
        "varve {} serves {pool}\n  NBD    {}\n  admin  {}\n\n\
         create a volume:  varve{flag} volume create vm1 --size 20GiB\n\
         attach it:        {attach}\n",
        env!("CARGO_PKG_VERSION"),
        joined.join(", "),
        admin.join(", "),
    )
}

/// The command that attaches volume `vm1` as a block device, from whatever directory.
fn attach(address: &ListenAddress, tls: &TlsSettings) -> String {
    let tls = match (tls.required, &tls.client_ca) {
        (false, _) => "",
        (true, None) => " -x -A CA.pem",
        (true, Some(_)) => " -x -A CA.pem -F CLIENT.pem -K CLIENT.key",
    };
    match address {
        ListenAddress::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("sudo nbd-client -unix {} -N vm1{tls} /dev/nbd0", path.display())
        }
        ListenAddress::Tcp(address) => {
            format!("sudo nbd-client {} {} -N vm1{tls} /dev/nbd0", address.ip(), address.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_name_this_daemon() {
        let mut settings = Settings::default();
        let nbd = settings.nbd_addresses();
        let admin = ["unix:varve-data/admin.sock".to_owned()];
        let shown = text(&settings, "pool x", &nbd, &admin);
        assert!(shown.contains("NBD    unix:varve-data/nbd.sock\n"), "{shown}");
        assert!(shown.contains("varve volume create vm1"), "{shown}");
        let socket = std::path::absolute("varve-data/nbd.sock").unwrap();
        let attach = format!("nbd-client -unix {} -N vm1 /dev/nbd0", socket.display());
        assert!(shown.contains(&attach), "{shown}");
        settings.nbd.tls.required = true;
        let shown = text(&settings, "pool x", &nbd, &admin);
        assert!(shown.contains(" -N vm1 -x -A CA.pem /dev/nbd0"), "{shown}");
        settings.data = "/srv/v".into();
        let shown = text(&settings, "pool x", &settings.nbd_addresses(), &admin);
        assert!(shown.contains("varve --data /srv/v volume create"), "{shown}");
    }
}
