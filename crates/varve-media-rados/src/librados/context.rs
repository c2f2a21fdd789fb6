//! The objects of one pool through librados.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::sync::Arc;
use std::thread;

use futures_channel::oneshot;

use super::ClusterConnection;
use super::completion::RadosOperation;
use super::library::{Handle, Opaque};
use super::monitors::stripe_bytes;
use crate::objects::{ObjectChange, Objects, RadosFuture, Refusal, Write};

const COMPARE_EQUAL: u8 = 1;
/// What is given is not below what the attribute holds.
const COMPARE_NOT_BELOW: u8 = 4;
const CREATE_EXCLUSIVE: i32 = 1;
/// Changes of a full pool are refused rather than put off until there is room, and deletions go on.
const FULL_TRY: i32 = 64;

/// Longest attribute that is read, in bytes.
const ATTRIBUTE_BYTES_MAX: usize = 4096;

/// An I/O context of librados.
pub(super) struct Context {
    connection: Arc<ClusterConnection>,
    handle: Opaque,
    pool: String,
    alignment: u64,
    /// One more for each read under way.
    reads: Arc<()>,
}

impl Drop for Context {
    fn drop(&mut self) {
        if Arc::strong_count(&self.reads) > 1 {
            // librados looks at the context when a read is answered, and holds none for it: both stay for ever.
            std::mem::forget(Arc::clone(&self.connection));
            return;
        }
        // SAFETY: the handle came from `rados_ioctx_create`; no read is under way, and changes hold the context
        // themselves.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.connection.api.ioctx_destroy)(self.handle);
        }
    }
}

impl Context {
    pub(super) fn open(connection: Arc<ClusterConnection>, pool: &str) -> Result<Self, Refusal> {
        let name = CString::new(pool).map_err(|_| Refusal::INVALID)?;
        let mut handle = ptr::null_mut();
        let create = connection.api.ioctx_create;
        // SAFETY: the connection is open; the name ends with a zero and outlives the call.
        #[expect(unsafe_code, reason = "calls librados")]
        let code = unsafe { create(connection.handle.0, name.as_ptr(), &raw mut handle) };
        accepted(code)?;
        let (pool_name, reads) = (pool.to_owned(), Arc::default());
        let mut context = Self { connection, handle, pool: pool_name, alignment: 1, reads };
        context.alignment = stripe_bytes(&context.connection, pool)?;
        Ok(context)
    }

    fn begin_change(&self, object: &CStr, change: &ObjectChange) -> RadosOperation {
        let op = WriteOp::new(&self.connection);
        for (name, value) in &change.expects {
            op.compare(COMPARE_EQUAL, name, value);
        }
        if let Some((name, value)) = &change.at_most {
            op.compare(COMPARE_NOT_BELOW, name, value);
        }
        if change.creates {
            op.create();
        }
        match &change.write {
            Some(Write::Whole(bytes)) => op.write_full(bytes),
            Some(Write::At(offset, bytes)) => op.write(*offset, bytes),
            Some(Write::Remove) => op.remove(),
            None => {}
        }
        for (name, value) in &change.sets {
            op.set(name, value);
        }
        let operate = self.connection.api.aio_write_op_operate;
        RadosOperation::begin(&self.connection, None, Vec::new(), |completion, _| {
            // SAFETY: context and operation are alive; librados takes what it needs of the operation and the name
            // before it returns.
            #[expect(unsafe_code, reason = "calls librados")]
            unsafe {
                operate(
                    op.handle,
                    self.handle,
                    completion,
                    object.as_ptr(),
                    ptr::null_mut(),
                    FULL_TRY,
                )
            }
        })
    }

    /// Counts a read, until it is dropped.
    fn a_read(&self) -> Option<Arc<()>> {
        Some(Arc::clone(&self.reads))
    }
}

impl Objects for Context {
    fn pool(&self) -> &str {
        &self.pool
    }

    fn alignment(&self) -> u64 {
        self.alignment
    }

    fn change(&self, object: &str, change: ObjectChange) -> RadosFuture<()> {
        let Ok(name) = CString::new(object) else { return refused(Refusal::INVALID) };
        let operation = self.begin_change(&name, &change);
        Box::pin(async move { operation.await.map(drop) })
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> RadosFuture<Vec<u8>> {
        let Ok(name) = CString::new(object) else { return refused(Refusal::INVALID) };
        let read = self.connection.api.aio_read;
        let start = |completion, address: *mut u8| {
            // SAFETY: `RadosOperation` keeps the `len` bytes until librados has called back.
            #[expect(unsafe_code, reason = "calls librados")]
            unsafe {
                read(self.handle, name.as_ptr(), completion, address.cast(), len, offset)
            }
        };
        let operation = RadosOperation::begin(&self.connection, self.a_read(), vec![0; len], start);
        Box::pin(async move {
            let (count, mut bytes) = operation.await?;
            bytes.truncate(count);
            Ok(bytes)
        })
    }

    fn attribute(&self, object: &str, name: &str) -> RadosFuture<Option<Vec<u8>>> {
        const NO_SUCH_ATTRIBUTE: Refusal = Refusal(61);
        let (Ok(object), Ok(name)) = (CString::new(object), CString::new(name)) else {
            return refused(Refusal::INVALID);
        };
        let get = self.connection.api.aio_getxattr;
        let start = |completion, address: *mut u8| {
            let (len, address) = (ATTRIBUTE_BYTES_MAX, address.cast());
            // SAFETY: `RadosOperation` keeps the bytes until librados has called back.
            #[expect(unsafe_code, reason = "calls librados")]
            unsafe {
                get(self.handle, object.as_ptr(), completion, name.as_ptr(), address, len)
            }
        };
        let bytes = vec![0; ATTRIBUTE_BYTES_MAX];
        let operation = RadosOperation::begin(&self.connection, self.a_read(), bytes, start);
        Box::pin(async move {
            match operation.await {
                Ok((count, mut bytes)) => {
                    bytes.truncate(count);
                    Ok(Some(bytes))
                }
                Err(NO_SUCH_ATTRIBUTE) => Ok(None),
                Err(refusal) => Err(refusal),
            }
        })
    }

    fn list(&self) -> RadosFuture<Vec<String>> {
        let (sender, receiver) = oneshot::channel();
        let connection = Arc::clone(&self.connection);
        let listing = NameListing { connection, handle: Handle(self.handle), _read: self.a_read() };
        let thread = thread::Builder::new().name("rados-list".to_owned()).spawn(move || {
            // Nobody may wait any more.
            let _ = sender.send(listing.names());
        });
        if let Err(error) = thread {
            return refused(Refusal(error.raw_os_error().unwrap_or(Refusal::INVALID.0)));
        }
        Box::pin(async move { receiver.await.unwrap_or(Err(Refusal::INVALID)) })
    }
}

/// The names of a pool's objects, asked for on a thread of its own, as librados has no other way.
struct NameListing {
    connection: Arc<ClusterConnection>,
    handle: Handle,
    /// Keeps the context.
    _read: Option<Arc<()>>,
}

impl NameListing {
    fn names(&self) -> Result<Vec<String>, Refusal> {
        let api = &self.connection.api;
        let mut list = ptr::null_mut();
        // SAFETY: the context is open.
        #[expect(unsafe_code, reason = "calls librados")]
        accepted(unsafe { (api.list_open)(self.handle.0, &raw mut list) })?;
        let mut names = Vec::new();
        let ended = loop {
            let mut entry: *const c_char = ptr::null();
            // SAFETY: the list is open; keys and namespaces are not asked for.
            #[expect(unsafe_code, reason = "calls librados")]
            let code =
                unsafe { (api.list_next)(list, &raw mut entry, ptr::null_mut(), ptr::null_mut()) };
            match accepted(code) {
                Ok(()) => {}
                Err(Refusal::NOT_FOUND) => break Ok(names), // The end.
                Err(refusal) => break Err(refusal),
            }
            // SAFETY: the entry ends with a zero, and lives until the next call.
            #[expect(unsafe_code, reason = "reads a string of C")]
            let name = unsafe { CStr::from_ptr(entry) };
            names.extend(name.to_str().map(str::to_owned)); // Ours are text.
        };
        // SAFETY: the list is open, and not used any more.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (api.list_close)(list);
        }
        ended
    }
}

/// A compound change that is being put together. librados copies what it is given.
struct WriteOp<'a> {
    connection: &'a ClusterConnection,
    handle: Opaque,
}

impl Drop for WriteOp<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle came from `rados_create_write_op`; an operation under way holds its own.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.connection.api.release_write_op)(self.handle);
        }
    }
}

impl<'a> WriteOp<'a> {
    fn new(connection: &'a ClusterConnection) -> Self {
        // SAFETY: it has no conditions.
        #[expect(unsafe_code, reason = "calls librados")]
        let handle = unsafe { (connection.api.create_write_op)() };
        Self { connection, handle }
    }

    fn compare(&self, how: u8, name: &str, value: &[u8]) {
        let name = attribute_name(name);
        let (add, value, len) = (self.connection.api.op_cmpxattr, value.as_ptr(), value.len());
        // SAFETY: name and value outlive the call.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            add(self.handle, name.as_ptr(), how, value.cast(), len);
        }
    }

    fn create(&self) {
        // SAFETY: the operation is alive.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.connection.api.op_create)(self.handle, CREATE_EXCLUSIVE, ptr::null());
        }
    }

    fn write_full(&self, bytes: &[u8]) {
        // SAFETY: the bytes outlive the call.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.connection.api.op_write_full)(self.handle, bytes.as_ptr().cast(), bytes.len());
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let (add, at, len) = (self.connection.api.op_write, bytes.as_ptr(), bytes.len());
        // SAFETY: the bytes outlive the call.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            add(self.handle, at.cast(), len, offset);
        }
    }

    fn remove(&self) {
        // SAFETY: the operation is alive.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            (self.connection.api.op_remove)(self.handle);
        }
    }

    fn set(&self, name: &str, value: &[u8]) {
        let name = attribute_name(name);
        let (add, value, len) = (self.connection.api.op_setxattr, value.as_ptr(), value.len());
        // SAFETY: name and value outlive the call.
        #[expect(unsafe_code, reason = "calls librados")]
        unsafe {
            add(self.handle, name.as_ptr(), value.cast(), len);
        }
    }
}

fn attribute_name(name: &str) -> CString {
    CString::new(name).expect("names of attributes are constants without zeros")
}

pub(super) fn accepted(code: i32) -> Result<(), Refusal> {
    if code < 0 { Err(Refusal(code.saturating_neg())) } else { Ok(()) }
}

fn refused<T: 'static>(refusal: Refusal) -> RadosFuture<T> {
    Box::pin(std::future::ready(Err(refusal)))
}
