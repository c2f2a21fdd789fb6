//! Bounds of the NBD server, each with its unit and reason.

use varve_types::limits::REQUEST_BYTES_MAX;

/// Longest string of the protocol in bytes; longer export names and queries are refused as too big.
pub const STRING_BYTES_MAX: usize = 4096;

/// Longest option data in bytes that is looked at: a name and a few dozen queries. Longer data is skipped unread.
pub const OPTION_BYTES_MAX: u32 = 64 << 10;

/// Most options of one handshake: current clients send fewer than ten, `nbdinfo --list` one for each export.
pub const OPTIONS_MAX: u32 = 4096;

/// Receive buffer in bytes of a connection that moves much: what a unix socket holds by default, so one receive empties
/// it.
pub const RECEIVE_BYTES: usize = 256 << 10;

/// Receive buffer in bytes of a connection that moves little, or nothing: two requests to write 4 KiB do not fit.
pub const IDLE_RECEIVE_BYTES: usize = 8 << 10;

/// Receives in a row that would have fitted the small buffer, after which the large one is given back.
pub const IDLE_RECEIVES: u32 = 64;

/// Receive buffer in bytes until client and server have agreed: options are small.
pub const AGREEMENT_RECEIVE_BYTES: usize = 64 << 10;

/// Write payloads of this many bytes and more are received straight into the buffer of their request: a
/// second receive then costs less than the copy.
pub const DIRECT_PAYLOAD_BYTES_MIN: usize = 64 << 10;

/// Most requests of a connection between arrival and the end of sending the reply: twice the deepest queue of
/// the Linux client. More are left in the socket.
pub const REQUESTS_MAX: usize = 256;

/// Reads that are started before what they ask of the drive is handed to the kernel: the drive would idle until a whole
/// batch is taken in, and then this thread while the drive does all of it. One by one would cost a system call each.
pub const READS_A_SUBMIT: u32 = 4;

/// Bytes of payload that the requests of a connection may hold whatever others hold: some small requests of any guest.
/// All connections together may hold as much beside the budget of their thread.
pub const CONNECTION_RESERVED_BYTES: usize = 16 << 10;

/// Least budget of a thread for the payload of requests: the largest request must fit.
pub const THREAD_BYTES_MIN: usize = 32 << 20;

/// Default for the bytes of payload that the requests of all connections of one thread may hold. One connection with
/// many requests takes up to half of what others leave; larger requests wait in arrival order.
pub const THREAD_BYTES_DEFAULT: usize = 64 << 20;

/// Most extents in one block status reply: 64 KiB of reply, twice that with extended headers; clients ask again for the
/// rest.
pub const EXTENTS_MAX: usize = 8192;

/// Bytes of an extent in its longest form, in memory and in a reply.
pub const EXTENT_BYTES: usize = 16;

/// Least bytes of the range of a block status for which its reply has room for one more extent: the smallest logical
/// block of a disk.
pub const EXTENT_SPAN_BYTES_MIN: u64 = 512;

/// Most parts of one gathered send: half of what the kernel takes in one call.
pub const SEND_PARTS_MAX: usize = 512;

/// Most bytes of one gathered send. A batch ends with the reply that reaches it.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// Piece in bytes by which a cache request reads, so that it never holds more than that.
pub const CACHE_PIECE_BYTES: u32 = 1 << 20;

/// Bytes from the start of its range that a cache request reads at most: what is beyond would push out what was read
/// before.
pub const CACHE_BYTES_MAX: u64 = 1 << 30;

/// Most contexts of changes that a connection selects: each is another walk of the maps at every block status, and more
/// extents in its reply.
pub const CHANGES_MAX: usize = 8;

/// Most contexts of changes that are listed when none is named: a handshake's reply stays below 64 KiB, and more
/// snapshots can be named.
pub const CHANGES_LISTED_MAX: usize = 128;

/// Time from accept to the first request, in milliseconds: seven round trips and a TLS handshake over a bad link.
pub const HANDSHAKE_TIMEOUT_MS: u64 = 10_000;

/// Interval in milliseconds at which a connection looks for a peer that has stalled.
pub const STALL_CHECK_MS: u64 = 1_000;

/// Checks in a row without progress after which a peer has stalled.
pub const STALL_CHECKS: u32 = 4;

/// A peer that moves fewer bytes than this between two checks makes no progress; it loses its connection when others
/// wait for the memory its requests hold, or when the connection is closing.
pub const STALL_BYTES_MIN: u64 = 16 << 10;

/// While others wait, a peer has to move this part of what its requests hold between two checks.
pub const STALL_PART: usize = 32;

/// Time that outstanding requests have to finish after a shutdown began, in milliseconds.
pub const DRAIN_TIMEOUT_MS: u64 = 5_000;

/// Default for the connections open at a time: some hundred disks of several connections each. An idle one holds a few
/// KiB.
pub const CONNECTIONS_DEFAULT: usize = 1024;

/// Default for those from one address of a network: a host may have most of them, and never all.
pub const CONNECTIONS_PER_ADDRESS_DEFAULT: usize = 768;

const _: () = assert!(OPTION_BYTES_MAX as usize + 16 + AGREEMENT_RECEIVE_BYTES <= RECEIVE_BYTES);
const _: () = assert!(DIRECT_PAYLOAD_BYTES_MIN + 32 <= RECEIVE_BYTES / 2);
const _: () = assert!(REQUEST_BYTES_MAX as usize <= THREAD_BYTES_MIN);
const _: () = assert!(THREAD_BYTES_MIN <= THREAD_BYTES_DEFAULT);
const _: () = assert!(CONNECTION_RESERVED_BYTES < DIRECT_PAYLOAD_BYTES_MIN);
const _: () = assert!((1 + CHANGES_MAX) * EXTENTS_MAX * EXTENT_BYTES <= THREAD_BYTES_MIN);
const _: () = assert!(CACHE_PIECE_BYTES <= REQUEST_BYTES_MAX);
const _: () = assert!(CACHE_PIECE_BYTES as u64 <= CACHE_BYTES_MAX);
const _: () = assert!(REQUESTS_MAX.is_multiple_of(64));
const _: () = assert!(READS_A_SUBMIT > 0);
const _: () = assert!(STRING_BYTES_MAX < OPTION_BYTES_MAX as usize);
