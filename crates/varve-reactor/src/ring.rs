//! Raw I/O of one thread's io_uring: operations that own their buffers until the kernel is done with them.
//!
//! RING-1. Whatever memory and file a submission names stays in `ops` until its completion was reaped.
//! RING-2. An operation is queued when it is called and reaches the kernel with the others at the end of the turn.
//! RING-3. Dropping a disk operation's future does not stop it; dropping a socket operation's future cancels it.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};
use slab::Slab;
use varve_stdx::{AlignedBuf, BufSlice};

use crate::net::Message;

/// Marks completions of the poll on the wake-up eventfd.
pub(crate) const WAKE_UP: u64 = u64::MAX;
/// Marks completions nobody waits for.
const UNATTENDED: u64 = u64::MAX - 1;

/// How long an ending loop waits for the kernel to let go of buffers, in seconds. Then it leaks them.
const DRAIN_SECONDS: u64 = 10;

/// Memory that the kernel reads or writes during an operation.
pub(crate) enum OperationMemory {
    Nothing,
    Buf(AlignedBuf),
    Slice(BufSlice),
    Parts(WriteParts),
    Message(Box<Message>),
    /// The result is a new descriptor, to be closed when nobody waits for it.
    NewFd,
}

/// What a gathered write reads: the parts, and the vectors that point to them.
pub(crate) struct WriteParts {
    parts: Vec<BufSlice>,
    vectors: Vec<libc::iovec>,
}

/// Parts of one gathered write at most: those of which the kernel takes a vector (`IOV_MAX`).
pub const WRITE_PARTS_MAX: usize = 1024;

enum OpState {
    Waiting(Option<Waker>),
    /// Its future is gone.
    Abandoned,
    Done(i32),
}

struct Op {
    state: OpState,
    held: OperationMemory,
    file: Option<RingFile>, // RING-1
}

struct FileInner {
    fd: OwnedFd,
    /// Place in the ring's file table.
    fixed: Option<u32>,
    ring: Weak<RingCore>,
}

impl Drop for FileInner {
    fn drop(&mut self) {
        if let (Some(place), Some(ring)) = (self.fixed, self.ring.upgrade()) {
            ring.release_file(place);
        }
    }
}

/// An open file or socket that operations of one ring name. Clones share it; the last one closes it.
#[derive(Clone)]
pub struct RingFile {
    inner: Rc<FileInner>,
}

impl RingFile {
    /// The file itself, for calls beside the ring.
    #[must_use]
    pub fn as_raw_fd(&self) -> RawFd {
        self.inner.fd.as_raw_fd()
    }

    /// A duplicate of the descriptor, which any thread may have.
    ///
    /// # Errors
    /// The system's.
    pub fn into_fd(self) -> io::Result<OwnedFd> {
        // An operation under way keeps a reference to the one that is there.
        self.inner.fd.try_clone()
    }
}

/// Builds an entry for a registered or a plain file.
macro_rules! on_file {
    ($file:expr, |$fd:ident| $entry:expr) => {
        match $file.inner.fixed {
            Some(place) => {
                let $fd = Fixed(place);
                $entry
            }
            None => {
                let $fd = Fd($file.inner.fd.as_raw_fd());
                $entry
            }
        }
    };
}

pub(crate) struct RingCore {
    uring: RefCell<IoUring>,
    ops: RefCell<Slab<Op>>,
    free_files: RefCell<Vec<u32>>,
    /// Completions being handled; kept for its memory.
    posted: RefCell<Vec<cqueue::Entry>>,
    /// The last news of the wake-up eventfd.
    rung: Cell<Option<bool>>,
}

impl RingCore {
    fn release_file(&self, place: u32) {
        let freed = self.uring.borrow().submitter().register_files_update(place, &[-1]);
        if freed.is_ok() {
            self.free_files.borrow_mut().push(place);
        }
    }
}

/// Raw I/O of this thread. Clones share the ring.
#[derive(Clone)]
pub struct Ring {
    core: Rc<RingCore>,
}

impl Ring {
    pub(crate) fn new(entries: u32, files_max: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(entries.saturating_mul(4)).setup_clamp();
        let mut fast = builder.clone();
        fast.setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().setup_taskrun_flag();
        // Kernels before 6.1 lack deferred task work.
        let uring = fast.build(entries).or_else(|_| builder.build(entries))?;
        if !uring.params().is_feature_ext_arg() || !uring.params().is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring needs Linux 5.11"));
        }
        let registered = uring.submitter().register_files_sparse(files_max).is_ok();
        let free_files = if registered { (0..files_max).rev().collect() } else { Vec::new() };
        let core = RingCore {
            uring: RefCell::new(uring),
            ops: RefCell::default(),
            free_files: RefCell::new(free_files),
            posted: RefCell::default(),
            rung: Cell::default(),
        };
        Ok(Self { core: Rc::new(core) })
    }

    /// Puts a file into the ring's table, which saves a look-up an operation; a plain file when the table is full.
    #[must_use]
    pub fn register(&self, fd: OwnedFd) -> RingFile {
        let free = self.core.free_files.borrow_mut().pop();
        let fixed = free.filter(|place| {
            let uring = self.core.uring.borrow();
            uring.submitter().register_files_update(*place, &[fd.as_raw_fd()]).is_ok()
        });
        RingFile { inner: Rc::new(FileInner { fd, fixed, ring: Rc::downgrade(&self.core) }) }
    }

    /// Names a file without registering it: for sockets, which come and go.
    #[must_use]
    pub fn plain(&self, fd: OwnedFd) -> RingFile {
        RingFile { inner: Rc::new(FileInner { fd, fixed: None, ring: Weak::new() }) }
    }

    /// Reads `len` bytes at `offset` into the start of `buf`; yields how many came.
    ///
    /// # Panics
    /// When `len` exceeds the buffer's length.
    pub fn read(
        &self,
        file: &RingFile,
        offset: u64,
        mut buf: AlignedBuf,
        len: usize,
    ) -> RingOperation<(io::Result<usize>, AlignedBuf)> {
        assert!(len <= buf.len(), "a read fits its buffer");
        let (ptr, len) = (buf.as_mut_ptr(), transfer_len(len));
        let entry = on_file!(file, |fd| opcode::Read::new(fd, ptr, len).offset(offset).build());
        self.start(entry, OperationMemory::Buf(buf), file, |result, held| match held {
            OperationMemory::Buf(buf) => (outcome(result), buf),
            _ => unreachable!("a read holds a buffer"),
        })
    }

    /// Writes `bytes` at `offset`; yields how many were taken. With `dsync` they are durable then.
    pub fn write(
        &self,
        file: &RingFile,
        offset: u64,
        bytes: BufSlice,
        dsync: bool,
    ) -> RingOperation<(io::Result<usize>, BufSlice)> {
        let (ptr, len) = (bytes.as_ptr(), transfer_len(bytes.len()));
        let flags = if dsync { libc::RWF_DSYNC } else { 0 };
        let entry = on_file!(file, |fd| {
            opcode::Write::new(fd, ptr, len).offset(offset).rw_flags(flags).build()
        });
        self.start(entry, OperationMemory::Slice(bytes), file, |result, held| match held {
            OperationMemory::Slice(bytes) => (outcome(result), bytes),
            _ => unreachable!("a write holds a slice"),
        })
    }

    /// As [`Self::write`], of parts one after the other.
    ///
    /// # Panics
    /// When there are more than [`WRITE_PARTS_MAX`] parts.
    pub fn write_gathered(
        &self,
        file: &RingFile,
        offset: u64,
        parts: Vec<BufSlice>,
        dsync: bool,
    ) -> RingOperation<(io::Result<usize>, Vec<BufSlice>)> {
        assert!(parts.len() <= WRITE_PARTS_MAX, "{} parts of a write", parts.len());
        let vector = |part: &BufSlice| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        let vectors: Vec<_> = parts.iter().map(vector).collect();
        // RING-1: vectors and parts do not move when what holds them does.
        let (ptr, count) = (vectors.as_ptr(), transfer_len(vectors.len()));
        let flags = if dsync { libc::RWF_DSYNC } else { 0 };
        let entry = on_file!(file, |fd| {
            opcode::Writev::new(fd, ptr, count).offset(offset).rw_flags(flags).build()
        });
        let held = OperationMemory::Parts(WriteParts { parts, vectors });
        self.start(entry, held, file, |result, held| match held {
            OperationMemory::Parts(WriteParts { parts, vectors }) => {
                drop(vectors);
                (outcome(result), parts)
            }
            _ => unreachable!("a gathered write holds parts"),
        })
    }

    /// Makes what was written before durable; metadata not needed to read it may be left out.
    pub fn sync_data(&self, file: &RingFile) -> RingOperation<io::Result<()>> {
        let flags = io_uring::types::FsyncFlags::DATASYNC;
        let entry = on_file!(file, |fd| opcode::Fsync::new(fd).flags(flags).build());
        self.start(entry, OperationMemory::Nothing, file, |result, _| outcome(result).map(drop))
    }

    /// `fallocate(2)` with its mode flags.
    pub fn fallocate(
        &self,
        file: &RingFile,
        mode: i32,
        offset: u64,
        len: u64,
    ) -> RingOperation<io::Result<()>> {
        let entry = on_file!(file, |fd| {
            opcode::Fallocate::new(fd, len).offset(offset).mode(mode).build()
        });
        self.start(entry, OperationMemory::Nothing, file, |result, _| outcome(result).map(drop))
    }

    pub(crate) fn start<T>(
        &self,
        entry: Entry,
        held: OperationMemory,
        file: &RingFile,
        finish: fn(i32, OperationMemory) -> T,
    ) -> RingOperation<T> {
        let op = Op { state: OpState::Waiting(None), held, file: Some(file.clone()) };
        let key = self.core.ops.borrow_mut().insert(op);
        self.push(&entry.user_data(key as u64));
        RingOperation { ring: self.clone(), key: Some(key), cancel_on_drop: false, finish }
    }

    /// RING-2
    fn push(&self, entry: &Entry) {
        let mut uring = self.core.uring.borrow_mut();
        while uring.submission().is_full() {
            let submitted = uring.submit();
            if submitted.is_err() {
                // Refused while completions overflow: reaping makes room.
                tolerate(submitted);
                drop(uring);
                self.reap();
                uring = self.core.uring.borrow_mut();
            }
        }
        // SAFETY: RING-1: what the entry names was put into `ops` before, or is owned by the loop for its whole life.
        #[expect(unsafe_code, reason = "queues a submission")]
        let pushed = unsafe { uring.submission().push(entry) };
        pushed.expect("the queue has room");
    }

    fn cancel(&self, key: usize) {
        self.push(&opcode::AsyncCancel::new(key as u64).build().user_data(UNATTENDED));
    }

    /// Watches the wake-up eventfd until the loop ends.
    pub(crate) fn watch_wake_up(&self, eventfd: RawFd) {
        let poll = opcode::PollAdd::new(Fd(eventfd), libc::POLLIN as u32).multi(true);
        self.push(&poll.build().user_data(WAKE_UP));
    }

    /// Hands queued operations to the kernel and lets it post completions, without waiting. The loop does so by itself
    /// once nobody is ready: this is for who would rather pay a system call an operation than have one wait for others.
    /// Nothing happens when none is queued.
    pub fn submit(&self) {
        let mut uring = self.core.uring.borrow_mut();
        let queue = uring.submission();
        let needed = !queue.is_empty() || queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if needed {
            tolerate(uring.submit());
        }
    }

    /// Whether completions are posted, or the kernel has some to post.
    pub(crate) fn has_news(&self) -> bool {
        let mut uring = self.core.uring.borrow_mut();
        let is_posted = !uring.completion().is_empty();
        is_posted || uring.submission().taskrun()
    }

    /// Hands queued operations to the kernel and waits for a completion, at most `nanos_max` if that is given.
    pub(crate) fn submit_and_wait(&self, nanos_max: Option<u64>) {
        let uring = self.core.uring.borrow();
        let Some(nanos) = nanos_max else {
            tolerate(uring.submit_and_wait(1));
            return;
        };
        let below_second = u32::try_from(nanos % 1_000_000_000).expect("below 10^9");
        let timespec = Timespec::new().sec(nanos / 1_000_000_000).nsec(below_second);
        let args = SubmitArgs::new().timespec(&timespec);
        tolerate(uring.submitter().submit_with_args(1, &args));
    }

    /// Takes all posted completions and wakes who awaits them.
    pub(crate) fn reap(&self) {
        let mut posted = self.core.posted.take();
        posted.extend(self.core.uring.borrow_mut().completion());
        for entry in posted.drain(..) {
            match entry.user_data() {
                WAKE_UP => self.core.rung.set(Some(cqueue::more(entry.flags()))),
                UNATTENDED => {}
                key => self.complete(key, entry.result()),
            }
        }
        self.core.posted.replace(posted);
    }

    /// Whether the wake-up eventfd was rung since the last call: `Some` says whether its watch goes on.
    pub(crate) fn take_rung(&self) -> Option<bool> {
        self.core.rung.take()
    }

    fn complete(&self, key: u64, result: i32) {
        let key = usize::try_from(key).expect("keys are slab indices");
        let (waker, finished) = {
            let mut ops = self.core.ops.borrow_mut();
            let op = ops.get_mut(key).expect("a completion belongs to an operation"); // RING-1
            match std::mem::replace(&mut op.state, OpState::Done(result)) {
                OpState::Waiting(waker) => (waker, None),
                OpState::Abandoned => {
                    let op = ops.remove(key);
                    if matches!(op.held, OperationMemory::NewFd) {
                        drop(new_fd(result));
                    }
                    (None, Some(op))
                }
                OpState::Done(_) => unreachable!("an operation completes once"),
            }
        };
        drop(finished); // Dropping a file touches the ring: nothing is borrowed here.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until the kernel holds no buffer any more. Called when every task is gone.
    pub(crate) fn drain(&self) {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(DRAIN_SECONDS);
        while !self.core.ops.borrow().is_empty() && std::time::Instant::now() < end {
            self.submit_and_wait(Some(100_000_000));
            self.reap();
        }
        let left = std::mem::take(&mut *self.core.ops.borrow_mut());
        if !left.is_empty() {
            // The kernel may still write to these buffers: they must never be reused.
            std::mem::forget(left);
        }
    }
}

/// Errors of `io_uring_enter` that the next turn repeats anyway.
fn tolerate(entered: io::Result<usize>) {
    if let Err(error) = entered {
        let usual = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
        let code = error.raw_os_error().unwrap_or(0);
        assert!(usual.contains(&code), "io_uring_enter failed: {error}");
    }
}

fn transfer_len(len: usize) -> u32 {
    u32::try_from(len).expect("a transfer is below 4 GiB")
}

/// The kernel's result as a count or an error.
pub(crate) fn outcome(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}

/// The new descriptor that an operation returned.
pub(crate) fn new_fd(result: i32) -> io::Result<OwnedFd> {
    outcome(result)?;
    // SAFETY: the kernel made the descriptor for this result, which is read once: nobody else owns it.
    #[expect(unsafe_code, reason = "takes ownership of a new descriptor")]
    let fd = unsafe { OwnedFd::from_raw_fd(result) };
    Ok(fd)
}

/// An operation of the ring under way; see RING-3 for what dropping it means.
#[must_use = "a result nobody reads hides failures"]
pub struct RingOperation<T> {
    ring: Ring,
    key: Option<usize>,
    cancel_on_drop: bool,
    finish: fn(i32, OperationMemory) -> T,
}

impl<T> RingOperation<T> {
    pub(crate) fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }
}

impl<T> Future for RingOperation<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let key = self.key.expect("a finished operation is not polled");
        let op = {
            let mut ops = self.ring.core.ops.borrow_mut();
            match &mut ops[key].state {
                OpState::Waiting(Some(waker)) => {
                    waker.clone_from(cx.waker());
                    return Poll::Pending;
                }
                OpState::Waiting(none) => {
                    *none = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                OpState::Done(_) => ops.remove(key),
                OpState::Abandoned => unreachable!("its future is here"),
            }
        };
        self.key = None;
        let OpState::Done(result) = op.state else { unreachable!("checked above") };
        drop(op.file);
        Poll::Ready((self.finish)(result, op.held))
    }
}

impl<T> Drop for RingOperation<T> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let finished = {
            let mut ops = self.ring.core.ops.borrow_mut();
            match ops.get_mut(key) {
                Some(op) if matches!(op.state, OpState::Waiting(_)) => {
                    op.state = OpState::Abandoned;
                    None
                }
                Some(_) => {
                    let op = ops.remove(key);
                    if let (OperationMemory::NewFd, OpState::Done(result)) = (&op.held, &op.state) {
                        drop(new_fd(*result));
                    }
                    Some(op)
                }
                None => return, // The loop has ended.
            }
        };
        if finished.is_none() && self.cancel_on_drop {
            self.ring.cancel(key); // RING-3
        }
        drop(finished);
    }
}
