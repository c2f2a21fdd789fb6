//! Who may connect to the unix sockets of NBD.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use varve_client::{Failure, Result};

use crate::config::Settings;

/// Mode and group of a socket. It is its owner's alone until both are set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketAccess {
    mode: u32,
    group: Option<u32>,
}

impl SocketAccess {
    /// For the daemon's user alone.
    pub(crate) const PRIVATE: Self = Self { mode: 0o600, group: None };

    /// As the settings say.
    pub(crate) fn of(settings: &Settings) -> Result<Self> {
        let groups = || fs::read_to_string("/etc/group").unwrap_or_default();
        let group = match &settings.nbd.socket_group {
            None => None,
            Some(name) => Some(group_id(name, &groups()).ok_or_else(|| {
                Failure::misuse(format!("nbd.socket_group: no group `{name}`"))
                    .hint("give the name of a group in /etc/group, or its number")
            })?),
        };
        // A group is named so that its members can connect.
        let default = if group.is_some() { 0o660 } else { Self::PRIVATE.mode };
        Ok(Self { mode: settings.nbd.socket_mode.unwrap_or(default), group })
    }

    /// Sets them on a socket.
    pub(crate) fn apply(self, path: &Path) -> io::Result<()> {
        if self.group.is_some() {
            chown(path, None, self.group)?;
        }
        fs::set_permissions(path, Permissions::from_mode(self.mode))
    }
}

fn group_id(name: &str, groups: &str) -> Option<u32> {
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn groups_are_found_by_name_and_number() {
        let groups = "root:x:0:\nkvm:x:104:libvirt-qemu\n";
        assert_eq!(group_id("kvm", groups), Some(104));
        assert_eq!(group_id("7", groups), Some(7));
        assert_eq!(group_id("absent", groups), None);
        let mut settings = Settings::default();
        settings.nbd.socket_group = Some("no such group".to_owned());
        assert!(SocketAccess::of(&settings).unwrap_err().to_string().contains("no such group"));
    }

    #[test]
    fn a_socket_is_its_owners_unless_settings_say_otherwise() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mode = |settings: &Settings| {
            SocketAccess::of(settings).unwrap().apply(&path).unwrap();
            path.metadata().unwrap().mode() & 0o777
        };
        assert_eq!(mode(&Settings::default()), 0o600);
        let own = path.metadata().unwrap().gid().to_string();
        let mut settings = Settings::default();
        settings.nbd.socket_group = Some(own);
        assert_eq!(mode(&settings), 0o660);
        settings.nbd.socket_mode = Some(0o666);
        assert_eq!(mode(&settings), 0o666);
    }
}
