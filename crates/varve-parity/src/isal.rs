//! ISA-L, Intel's library of the same codes, where the system has it: what kernels are compared with, in bytes and in
//! speed. Nothing that stores data calls it.

use std::error::Error as _;
use std::ffi::{c_int, c_void};
use std::fs;

use libloading::Library;

use crate::product::Product;

/// Name of the library; its version 2 has had these functions since 2.8.
const FILE: &str = "libisal.so.2";

/// Bytes of the tables that ISA-L makes of a factor.
const TABLE_BYTES: usize = 32;

/// What addresses and lengths of `xor_gen` and `pq_gen` are multiples of.
const RAID_ALIGN: usize = 32;

type InitTables = unsafe extern "C" fn(k: c_int, rows: c_int, a: *const u8, tables: *mut u8);
type EncodeData = unsafe extern "C" fn(
    len: c_int,
    k: c_int,
    rows: c_int,
    tables: *const u8,
    data: *const *const u8,
    coding: *const *mut u8,
);
type RaidGen = unsafe extern "C" fn(vectors: c_int, len: c_int, array: *const *mut c_void) -> c_int;

/// The library, loaded.
pub struct IsaL {
    init_tables: InitTables,
    encode_data: EncodeData,
    xor_gen: RaidGen,
    pq_gen: RaidGen,
    _library: Library,
}

/// A product as ISA-L computes it.
pub struct IsaLProduct {
    tables: Vec<u8>,
    sources: usize,
    outputs: usize,
}

impl IsaL {
    /// Loads the library.
    ///
    /// # Errors
    /// Why it cannot be loaded, or which function it lacks.
    pub fn load() -> Result<Self, String> {
        // SAFETY: ISA-L does nothing when it is loaded.
        #[expect(unsafe_code, reason = "loads ISA-L")]
        let library = unsafe { Library::new(FILE) }.map_err(reason)?;
        // SAFETY: the type is that of the declaration in `erasure_code.h`.
        #[expect(unsafe_code, reason = "names the type of a function")]
        let init_tables = unsafe { library.get::<InitTables>(b"ec_init_tables\0") };
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "names the type of a function")]
        let encode_data = unsafe { library.get::<EncodeData>(b"ec_encode_data\0") };
        // SAFETY: the type is that of the declaration in `raid.h`.
        #[expect(unsafe_code, reason = "names the type of a function")]
        let xor_gen = unsafe { library.get::<RaidGen>(b"xor_gen\0") };
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "names the type of a function")]
        let pq_gen = unsafe { library.get::<RaidGen>(b"pq_gen\0") };
        Ok(Self {
            init_tables: *init_tables.map_err(reason)?,
            encode_data: *encode_data.map_err(reason)?,
            xor_gen: *xor_gen.map_err(reason)?,
            pq_gen: *pq_gen.map_err(reason)?,
            _library: library,
        })
    }

    /// The file that was loaded, whose name has the version; `None` where the kernel does not tell.
    #[must_use]
    pub fn path(&self) -> Option<String> {
        let maps = fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().filter_map(|line| line.split_once('/')).find_map(|(_, path)| {
            let name = path.rsplit('/').next()?;
            name.starts_with("libisal.so").then(|| format!("/{path}"))
        })
    }

    /// Prepares a product, as a program does that uses it often.
    #[must_use]
    pub fn prepare(&self, product: &Product) -> IsaLProduct {
        let rows = product.rows();
        let (sources, outputs) = (rows.first().map_or(0, Vec::len), rows.len());
        let factors = rows.concat();
        let mut tables = vec![0; TABLE_BYTES * factors.len()];
        // SAFETY: it reads rows x sources bytes, and writes 32 for each; both are there.
        #[expect(unsafe_code, reason = "calls ISA-L")]
        unsafe {
            (self.init_tables)(int(sources), int(outputs), factors.as_ptr(), tables.as_mut_ptr())
        };
        IsaLProduct { tables, sources, outputs }
    }

    /// Computes a product over strips of one length.
    ///
    /// # Panics
    /// When lengths or numbers of strips differ.
    pub fn compute(&self, product: &IsaLProduct, sources: &[&[u8]], outputs: &mut [&mut [u8]]) {
        let len = sources.first().map_or(0, |source| source.len());
        assert_eq!((sources.len(), outputs.len()), (product.sources, product.outputs));
        assert!(sources.iter().all(|source| source.len() == len));
        assert!(outputs.iter().all(|output| output.len() == len));
        let data: Vec<*const u8> = sources.iter().map(|source| source.as_ptr()).collect();
        let coding: Vec<*mut u8> = outputs.iter_mut().map(|output| output.as_mut_ptr()).collect();
        let (k, rows) = (int(product.sources), int(product.outputs));
        let tables = product.tables.as_ptr();
        // SAFETY: it reads `len` bytes of `k` sources and tables for all factors, and writes `len` bytes of `rows`
        // outputs; all are there, and outputs are borrowed alone.
        #[expect(unsafe_code, reason = "calls ISA-L")]
        unsafe {
            (self.encode_data)(int(len), k, rows, tables, data.as_ptr(), coding.as_ptr())
        };
    }

    /// Computes the sum of sources, or for two outputs P and Q, by the functions that ISA-L has for RAID. Returns
    /// whether it did: it does so for two or more sources whose strips are aligned to 32 bytes, as is their length.
    ///
    /// # Panics
    /// When lengths differ.
    pub fn compute_raid(&self, sources: &[&[u8]], outputs: &mut [&mut [u8]]) -> bool {
        let len = sources.first().map_or(0, |source| source.len());
        assert!(sources.iter().all(|source| source.len() == len));
        assert!(outputs.iter().all(|output| output.len() == len));
        let function = match outputs.len() {
            1 => self.xor_gen,
            2 => self.pq_gen,
            _ => return false,
        };
        // It only reads those that are not the last.
        let read = sources.iter().map(|source| source.as_ptr().cast_mut().cast::<c_void>());
        let written = outputs.iter_mut().map(|output| output.as_mut_ptr().cast::<c_void>());
        let array: Vec<*mut c_void> = read.chain(written).collect();
        let is_aligned = len.is_multiple_of(RAID_ALIGN)
            && array.iter().all(|strip| strip.addr().is_multiple_of(RAID_ALIGN));
        if sources.len() < 2 || !is_aligned {
            return false;
        }
        // SAFETY: it reads `len` bytes of all sources and writes as many of the outputs, which are borrowed alone;
        // number, length and alignment are as `raid.h` demands.
        #[expect(unsafe_code, reason = "calls ISA-L")]
        let code = unsafe { function(int(array.len()), int(len), array.as_ptr()) };
        code == 0
    }
}

/// What the loader says, which the error only has as its cause.
fn reason(error: libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

fn int(number: usize) -> c_int {
    c_int::try_from(number).expect("strips are shorter than 2 GiB")
}
