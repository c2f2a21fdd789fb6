//! Bytes of an entry. Little-endian.
//!
//! ```text
//!  magic 8 B "VARVENAM" | format u16 = 1 | cell u16 | zeros u32 | pool 16 B | stamp 16 B
//!  | checksum u64 of all before and the name
//! ```
//! The checksum goes on over the sort (1 volume, 2 bucket) and the text of the name, so that one name's entry is not
//! taken for another's.

use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::{CellId, PoolId};

use crate::{Entry, Error, Name, NameKind, Result, Stamp};

const MAGIC: [u8; 8] = *b"VARVENAM";
const FORMAT: u16 = 1;
const WHAT: &str = "entry of a name";
const COVERED_BYTES: usize = 48;

impl Entry {
    /// Bytes of an entry, in this format.
    pub const BYTES: usize = COVERED_BYTES + 8;

    /// The bytes that are stored for a name.
    #[must_use]
    pub fn encode(&self, name: &Name) -> Vec<u8> {
        let mut bytes = vec![0; Self::BYTES];
        let mut out = Writer::new(&mut bytes);
        out.array(MAGIC);
        out.u16(FORMAT);
        out.u16(self.cell.0);
        out.zeros(4);
        out.array(self.pool.0);
        out.array(self.stamp.0.to_le_bytes());
        let sum = checksum(&bytes[..COVERED_BYTES], name);
        bytes[COVERED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The entry that bytes hold, of a name in the register of a pool.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`], [`Error::OfAnother`].
    pub fn decode(pool: PoolId, name: &Name, bytes: &[u8]) -> Result<Self> {
        let damaged = |cause| Error::Damaged { name: name.clone(), cause };
        let mut fields = Reader::new(WHAT, bytes);
        fields.magic(MAGIC).map_err(damaged)?;
        let found = fields.u16().map_err(damaged)?;
        if found != FORMAT {
            return Err(Error::Format { name: name.clone(), found, known: FORMAT });
        }
        let entry = Self::decode_fields(fields, name, bytes).map_err(damaged)?;
        if entry.pool != pool {
            return Err(Error::OfAnother { name: name.clone(), pool: entry.pool });
        }
        Ok(entry)
    }

    /// What stands behind the format.
    fn decode_fields(
        mut fields: Reader<'_>,
        name: &Name,
        bytes: &[u8],
    ) -> std::result::Result<Self, DecodeError> {
        let mut whole = Reader::new(WHAT, bytes);
        let covered = whole.bytes(COVERED_BYTES)?;
        let sum = whole.u64()?;
        whole.end()?;
        if sum != checksum(covered, name) {
            return Err(fields.inconsistent("checksum mismatch"));
        }
        let cell = CellId(fields.u16()?);
        if cell.0 >= CellId::COUNT_MAX {
            return Err(fields.bad("cell", u64::from(cell.0)));
        }
        fields.zeros(4)?;
        Ok(Self { cell, pool: PoolId(fields.array()?), stamp: Stamp(fields.u128()?) })
    }
}

fn checksum(covered: &[u8], name: &Name) -> u64 {
    let sort = match name.sort {
        NameKind::Volume => 1,
        NameKind::Bucket => 2,
    };
    checksum64(&[covered, &[sort], name.full.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use varve_stdx::ExamplesPage;

    use super::*;

    const POOL: PoolId = PoolId([7; 16]);

    fn name(sort: NameKind) -> Name {
        Name { sort, full: "default/vm1".to_owned() }
    }

    fn entry() -> Entry {
        Entry { pool: POOL, cell: CellId(3), stamp: Stamp(1 << 90 | 5) }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes = entry().encode(&name(NameKind::Volume));
        assert_eq!(Entry::decode(POOL, &name(NameKind::Volume), &bytes), Ok(entry()));
    }

    #[test]
    fn the_page_of_examples_shows_what_is_stored() {
        let bytes = entry().encode(&name(NameKind::Volume));
        ExamplesPage::new("register", "the register of names", "varve-register")
            .example("Register entry", &bytes)
            .compare();
    }

    #[test]
    fn every_truncation_and_every_flip_is_refused() {
        let name = name(NameKind::Volume);
        let bytes = entry().encode(&name);
        for len in 0..bytes.len() {
            assert!(Entry::decode(POOL, &name, &bytes[..len]).is_err(), "{len} bytes are taken");
        }
        assert!(Entry::decode(POOL, &name, &[&bytes[..], &[0]].concat()).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(POOL, &name, &bytes).is_err(), "bit {bit} counts for nothing");
        }
    }

    #[test]
    fn entries_of_other_names_sorts_pools_and_formats_are_refused() {
        let name = name(NameKind::Volume);
        let bytes = entry().encode(&name);
        let other = Name { full: "default/vm2".to_owned(), ..name.clone() };
        assert!(Entry::decode(POOL, &other, &bytes).is_err());
        let bucket = Name { sort: NameKind::Bucket, ..name.clone() };
        assert!(Entry::decode(POOL, &bucket, &bytes).is_err());
        let of_another = Entry::decode(PoolId([8; 16]), &name, &bytes);
        assert_eq!(of_another, Err(Error::OfAnother { name: name.clone(), pool: POOL }));
        let mut later = bytes;
        later[8] = 2;
        let refused = Entry::decode(POOL, &name, &later);
        assert_eq!(refused, Err(Error::Format { name, found: 2, known: 1 }));
    }
}
