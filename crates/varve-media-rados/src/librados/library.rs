//! The functions of librados that are used, found in the library when it is loaded. Their declarations are those of
//! `librados.h`.

use std::ffi::{c_char, c_int, c_void};

use libloading::Library;

/// Name of the library; its version 2 has been the same since 2009.
pub(super) const FILE: &str = "librados.so.2";

pub(super) type Opaque = *mut c_void;

/// A connection. librados locks what it shares between threads.
pub(super) struct Handle(pub(super) Opaque);

// SAFETY: `librados.h`: a cluster handle may be used by several threads.
#[expect(unsafe_code, reason = "librados is thread-safe")]
unsafe impl Send for Handle {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "librados is thread-safe")]
unsafe impl Sync for Handle {}

/// Calls it when an operation is complete, on a thread of librados.
pub(super) type Callback = extern "C" fn(completion: Opaque, argument: *mut c_void);

macro_rules! api {
    ($($(#[$about:meta])* $name:ident: $symbol:literal = fn($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        /// The functions, and the library that they live in.
        pub(super) struct Api {
            $($(#[$about])* pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $answer)?,)*
            _library: Library,
        }

        impl Api {
            /// Loads the library.
            ///
            /// # Errors
            /// Why it cannot be loaded, or which function it lacks.
            pub(super) fn load() -> Result<Self, String> {
                // SAFETY: librados does nothing when it is loaded but set up its own state.
                #[expect(unsafe_code, reason = "loads librados")]
                let library = unsafe { Library::new(FILE) }.map_err(|error| error.to_string())?;
                $(
                    // SAFETY: the type is that of the function's declaration in `librados.h`.
                    #[expect(unsafe_code, reason = "names the type of a function")]
                    let found = unsafe { library.get($symbol) };
                    let $name = *found.map_err(|error| error.to_string())?;
                )*
                Ok(Self { $($name,)* _library: library })
            }
        }
    };
}

api! {
    create2: b"rados_create2\0" = fn(*mut Opaque, *const c_char, *const c_char, u64) -> c_int;
    conf_read_file: b"rados_conf_read_file\0" = fn(Opaque, *const c_char) -> c_int;
    conf_set: b"rados_conf_set\0" = fn(Opaque, *const c_char, *const c_char) -> c_int;
    connect: b"rados_connect\0" = fn(Opaque) -> c_int;
    getaddrs: b"rados_getaddrs\0" = fn(Opaque, *mut *mut c_char) -> c_int;
    shutdown: b"rados_shutdown\0" = fn(Opaque);
    ioctx_create: b"rados_ioctx_create\0" = fn(Opaque, *const c_char, *mut Opaque) -> c_int;
    ioctx_destroy: b"rados_ioctx_destroy\0" = fn(Opaque);
    mon_command: b"rados_mon_command\0" = fn(Opaque, *mut *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut *mut c_char, *mut usize) -> c_int;
    buffer_free: b"rados_buffer_free\0" = fn(*mut c_char);
    aio_create_completion: b"rados_aio_create_completion2\0" = fn(*mut c_void, Callback, *mut Opaque) -> c_int;
    aio_release: b"rados_aio_release\0" = fn(Opaque);
    aio_return_value: b"rados_aio_get_return_value\0" = fn(Opaque) -> c_int;
    aio_read: b"rados_aio_read\0" = fn(Opaque, *const c_char, Opaque, *mut c_char, usize, u64) -> c_int;
    aio_getxattr: b"rados_aio_getxattr\0" = fn(Opaque, *const c_char, Opaque, *const c_char, *mut c_char, usize) -> c_int;
    create_write_op: b"rados_create_write_op\0" = fn() -> Opaque;
    release_write_op: b"rados_release_write_op\0" = fn(Opaque);
    op_create: b"rados_write_op_create\0" = fn(Opaque, c_int, *const c_char);
    op_cmpxattr: b"rados_write_op_cmpxattr\0" = fn(Opaque, *const c_char, u8, *const c_char, usize);
    op_setxattr: b"rados_write_op_setxattr\0" = fn(Opaque, *const c_char, *const c_char, usize);
    op_write: b"rados_write_op_write\0" = fn(Opaque, *const c_char, usize, u64);
    op_write_full: b"rados_write_op_write_full\0" = fn(Opaque, *const c_char, usize);
    op_remove: b"rados_write_op_remove\0" = fn(Opaque);
    aio_write_op_operate: b"rados_aio_write_op_operate\0" = fn(Opaque, Opaque, Opaque, *const c_char, *mut c_void, c_int) -> c_int;
    list_open: b"rados_nobjects_list_open\0" = fn(Opaque, *mut Opaque) -> c_int;
    list_next: b"rados_nobjects_list_next\0" = fn(Opaque, *mut *const c_char, *mut *const c_char, *mut *const c_char) -> c_int;
    list_close: b"rados_nobjects_list_close\0" = fn(Opaque);
}
