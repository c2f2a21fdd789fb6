//! Numbers of the protocol, under the names of its specification.

/// First eight bytes a server sends.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Introduces newstyle negotiation and every option.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// Introduces every option reply.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Introduces every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Introduces a request with an extended header.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Introduces a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Introduces a chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Introduces a chunk of a reply with an extended header.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// Handshake flag, both ways: options other than `EXPORT_NAME` are understood.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag, both ways: no padding after the reply to `EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;

/// Options, sent by the client during the handshake.
pub mod opt {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Types of option replies.
pub mod rep {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR | 1;
    pub const ERR_POLICY: u32 = ERROR | 2;
    pub const ERR_INVALID: u32 = ERROR | 3;
    pub const ERR_TLS_REQD: u32 = ERROR | 5;
    pub const ERR_UNKNOWN: u32 = ERROR | 6;
    pub const ERR_SHUTDOWN: u32 = ERROR | 7;
    pub const ERR_TOO_BIG: u32 = ERROR | 9;
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR | 10;
}

/// Information types of INFO and GO.
pub mod info {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Transmission flags: what an export can do.
pub mod can {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const FLUSH: u16 = 1 << 2;
    pub const FUA: u16 = 1 << 3;
    pub const TRIM: u16 = 1 << 5;
    pub const WRITE_ZEROES: u16 = 1 << 6;
    pub const DF: u16 = 1 << 7;
    pub const MULTI_CONN: u16 = 1 << 8;
    pub const CACHE: u16 = 1 << 10;
    pub const FAST_ZERO: u16 = 1 << 11;
}

/// Commands of the transmission phase.
pub mod cmd {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const DISC: u16 = 2;
    pub const FLUSH: u16 = 3;
    pub const TRIM: u16 = 4;
    pub const CACHE: u16 = 5;
    pub const WRITE_ZEROES: u16 = 6;
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod flag {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Types of reply chunks, and their flag.
pub mod chunk {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const OFFSET_HOLE: u16 = 2;
    pub const BLOCK_STATUS: u16 = 5;
    pub const BLOCK_STATUS_EXT: u16 = 6;
    pub const ERROR: u16 = (1 << 15) | 1;
    pub const FLAG_DONE: u16 = 1 << 0;
}

/// Status flags of `base:allocation`.
pub mod state {
    #![expect(missing_docs, reason = "the specification names them so")]
    pub const HOLE: u32 = 1 << 0;
    pub const ZERO: u32 = 1 << 1;
}

/// Status flag of the contexts of changes: the extent may differ.
pub const STATE_DIRTY: u32 = 1 << 0;
