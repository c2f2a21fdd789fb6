//! RADOS through Ceph's own library, which is loaded at run time: the program starts without it.

mod completion;
mod context;
mod library;
mod monitors;

use std::ffi::{CStr, CString};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

use varve_media::{Error, Result};

use crate::objects::{Objects, Refusal};
use context::Context;
use library::{Api, Handle};

/// What is set whatever the configuration says: an operation has no end but its answer, as one that was given up could
/// land later; and callers, which are loops of shards, are not made to wait for room.
const OPTIONS: [(&CStr, &CStr); 4] = [
    (c"rados_osd_op_timeout", c"0"),
    (c"rados_mon_op_timeout", c"0"),
    (c"objecter_inflight_ops", c"65536"),
    (c"objecter_inflight_op_bytes", c"4294967296"),
];

/// What a connection needs.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Path of `ceph.conf`.
    pub config: String,
    /// The user, such as `client.varve`; its key is where the configuration says.
    pub user: String,
}

/// A connection to a cluster, for all threads. Clones share it; it ends with the last of them and of their pools.
#[derive(Clone)]
pub struct Cluster {
    connection: Arc<ClusterConnection>,
}

struct ClusterConnection {
    api: Arc<Api>,
    handle: Handle,
    /// What messages call it.
    name: String,
}

impl Drop for ClusterConnection {
    /// Never on a thread of librados, which could not wait for its own end: operations under way do not hold the
    /// connection, only those who wait for them do.
    fn drop(&mut self) {
        // SAFETY: the handle came from `rados_create2`, and no context of it is left: each holds this.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.api.shutdown)(self.handle.0);
        }
    }
}

impl Cluster {
    /// Connects. Blocks until the cluster answers, at most as long as its own `client mount timeout`.
    ///
    /// # Errors
    /// `Open` when librados is not installed or too old, when the configuration cannot be read, or the cluster cannot
    /// be reached.
    pub fn connect(options: &ClusterOptions) -> Result<Self> {
        let failed = |reason: String| Error::Open { path: options.config.clone(), reason };
        let text = |text: &str| CString::new(text).map_err(|error| failed(error.to_string()));
        let api = Arc::new(Api::load().map_err(|reason| Error::Open {
            path: library::FILE.to_owned(),
            reason: format!(
                "{reason}; pools on RADOS need Ceph's librados, Debian's package librados2"
            ),
        })?);
        let (cluster, user, config) = (text("ceph")?, text(&options.user)?, text(&options.config)?);
        let mut handle = ptr::null_mut();
        let named = |what: &str, code: i32| {
            let refusal = Refusal(-code);
            if code < 0 { Err(failed(format!("{what}: {refusal}"))) } else { Ok(()) }
        };
        // SAFETY: the strings end with zeros and outlive the call.
        #[expect(unsafe_code, reason = "calls librados")]
        let code = unsafe { (api.create2)(&raw mut handle, cluster.as_ptr(), user.as_ptr(), 0) };
        named("rados_create2", code)?;
        let handle = Handle(handle);
        let connection = ClusterConnection { api, handle, name: options.config.clone() };
        // SAFETY: the handle is not connected yet; the string ends with a zero and outlives the call.
        #[expect(unsafe_code, reason = "calls librados")]
        let code = unsafe { (connection.api.conf_read_file)(connection.handle.0, config.as_ptr()) };
        named("read it", code)?;
        for (option, value) in OPTIONS {
            let set = connection.api.conf_set;
            // SAFETY: the handle is not connected yet; the strings are constants.
            #[expect(unsafe_code, reason = "calls librados")]
            let code = unsafe { set(connection.handle.0, option.as_ptr(), value.as_ptr()) };
            named("set an option", code)?;
        }
        // SAFETY: the handle came from `rados_create2` and is configured.
        #[expect(unsafe_code, reason = "calls librados")]
        let code = unsafe { (connection.api.connect)(connection.handle.0) };
        named("connect", code)?;
        Ok(Self { connection: Arc::new(connection) })
    }

    /// The address of this machine from which the cluster is reached.
    ///
    /// # Errors
    /// `Open` when librados does not tell one.
    pub fn own_address(&self) -> Result<IpAddr> {
        let failed = |reason: String| {
            let path = format!("own address of {}", self.connection.name);
            Error::Open { path, reason }
        };
        let (api, mut text) = (&self.connection.api, ptr::null_mut());
        // SAFETY: the handle is connected; the string is allocated by librados, and freed below.
        #[expect(unsafe_code, reason = "calls librados")]
        let code = unsafe { (api.getaddrs)(self.connection.handle.0, &raw mut text) };
        if code < 0 || text.is_null() {
            return Err(failed(format!("rados_getaddrs: {}", Refusal(-code))));
        }
        // SAFETY: librados gave a string that ends with a zero.
        #[expect(unsafe_code, reason = "reads a string of C")]
        let addresses = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: librados allocated it, and nothing refers to it any more.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (api.buffer_free)(text);
        };
        first_address(&addresses).ok_or_else(|| failed(format!("{addresses:?} names none")))
    }

    /// Bytes that a pool may still take, its copies or parity not counted. Blocks until the monitors answer.
    ///
    /// # Errors
    /// `Open` when there is no such pool, or this user may not ask.
    pub fn free_bytes(&self, pool: &str) -> Result<u64> {
        monitors::free_bytes(&self.connection, pool).map_err(|refusal| self.refused(pool, refusal))
    }

    fn refused(&self, pool: &str, refusal: Refusal) -> Error {
        let path = format!("rados:{pool} of {}", self.connection.name);
        Error::Open { path, reason: refusal.to_string() }
    }

    /// The objects of a pool, for one thread.
    ///
    /// # Errors
    /// `Open` when there is no such pool, or this user may not use it.
    pub fn objects(&self, pool: &str) -> Result<Rc<dyn Objects>> {
        let opened = Context::open(Arc::clone(&self.connection), pool);
        Ok(Rc::new(opened.map_err(|refusal| self.refused(pool, refusal))?))
    }
}

/// The first address of a list as librados writes them: `10.0.0.1:0/42`, `[v2:10.0.0.1:0/42,v1:10.0.0.1:0/42]`,
/// `v1:[2001:db8::1]:0/42`.
fn first_address(text: &str) -> Option<IpAddr> {
    text.trim_start_matches('[').split([',', '/']).find_map(|part| {
        let bare = part.trim_start_matches("v1:").trim_start_matches("v2:");
        // The bracket of an address of the sixth version may have been trimmed with that of the list.
        let found = bare.parse().or_else(|_| format!("[{bare}").parse());
        found.ok().map(|address: SocketAddr| address.ip()).filter(|ip| !ip.is_unspecified())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_read_however_librados_writes_them() {
        let read = |text| first_address(text).map(|ip| ip.to_string());
        for text in ["10.0.0.1:0/42", "v1:10.0.0.1:0/42", "[v2:10.0.0.1:0/4,v1:10.0.0.1:0/4]"] {
            assert_eq!(read(text).as_deref(), Some("10.0.0.1"), "{text}");
        }
        for text in ["[2001:db8::1]:0/4", "v2:[2001:db8::1]:0/4", "[v2:[2001:db8::1]:0/4]"] {
            assert_eq!(read(text).as_deref(), Some("2001:db8::1"), "{text}");
        }
        for text in ["", "-", "0.0.0.0:0/0", "[]"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
