//! The account of a stream on a shard: which blocks and numbers were given out, and how much the layer above counts.
//! Described in `docs/format.md`.

use varve_stdx::{DecodeError, Reader, Writer};

use crate::content::BLOCKS_MAX;

const VERSION: u16 = 1;

/// By how much a transaction changes what the account counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TallyChange {
    /// Items.
    pub items: i64,
    /// Bytes of items.
    pub bytes: i128,
    /// Records.
    pub records: i64,
}

/// What a shard holds of a stream, and which numbers it has given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContentAccount {
    /// No block of the stream from this one on was ever used.
    next_block: u64,
    /// The next number of a series, reference or whatever the layer above numbers.
    next_id: u64,
    items: u64,
    bytes: u64,
    records: u64,
}

impl ContentAccount {
    const LEN: usize = 48;

    /// Of a stream that holds nothing and never did.
    pub const EMPTY: Self = Self { next_block: 1, next_id: 1, items: 0, bytes: 0, records: 0 };

    /// What users count, as the layer above defines it.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// Bytes of all items.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All records that the layer above counts, among them those that are no items.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.records
    }

    pub(crate) const fn next_block(&self) -> u64 {
        self.next_block
    }

    /// Addresses for so many blocks; `None` when all were used.
    pub(crate) fn take_blocks(&mut self, blocks: u64) -> Option<u64> {
        let first = self.next_block;
        let end = first.checked_add(blocks).filter(|end| *end <= BLOCKS_MAX)?;
        self.next_block = end;
        Some(first)
    }

    pub(crate) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The account after a change; `None` where it would count less than nothing.
    pub(crate) fn changed(self, by: TallyChange) -> Option<Self> {
        Some(Self {
            items: self.items.checked_add_signed(by.items)?,
            records: self.records.checked_add_signed(by.records)?,
            bytes: u64::try_from(i128::from(self.bytes) + by.bytes).ok()?,
            ..self
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; Self::LEN];
        let mut fields = Writer::new(&mut out);
        fields.u16(VERSION);
        fields.zeros(6);
        fields.u64(self.next_block);
        fields.u64(self.next_id);
        fields.u64(self.items);
        fields.u64(self.bytes);
        fields.u64(self.records);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut fields = Reader::new("account of a stream", bytes);
        fields.version(VERSION)?;
        fields.zeros(6)?;
        let account = Self {
            next_block: fields.u64()?,
            next_id: fields.u64()?,
            items: fields.u64()?,
            bytes: fields.u64()?,
            records: fields.u64()?,
        };
        if account.next_block == 0 || account.next_id == 0 {
            return Err(fields.inconsistent("its next block or number is 0"));
        }
        fields.end()?;
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_come_back_and_damaged_ones_are_refused() {
        let account = ContentAccount {
            next_block: 0x0102,
            next_id: 3,
            items: 4,
            bytes: 5 << 40,
            records: u64::MAX,
        };
        let bytes = account.encode();
        assert_eq!(bytes[..18], [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 3, 0]);
        assert_eq!(ContentAccount::decode(&bytes), Ok(account));
        for len in 0..bytes.len() {
            assert!(ContentAccount::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        assert!(ContentAccount::decode(&[&bytes[..], &[0]].concat()).is_err());
        for at in 0..8 {
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert!(ContentAccount::decode(&bad).is_err(), "byte {at}");
        }
    }

    #[test]
    fn blocks_and_numbers_are_given_once_and_counts_do_not_fall_below_nothing() {
        let mut account = ContentAccount::EMPTY;
        assert_eq!((account.take_blocks(3), account.take_blocks(1)), (Some(1), Some(4)));
        assert_eq!((account.take_id(), account.take_id()), (1, 2));
        assert_eq!(account.take_blocks(BLOCKS_MAX), None);
        let by = TallyChange { items: 1, bytes: 10, records: 2 };
        let account = account.changed(by).unwrap();
        assert_eq!((account.items(), account.bytes(), account.records()), (1, 10, 2));
        assert_eq!(account.changed(TallyChange { bytes: -11, ..TallyChange::default() }), None);
    }
}
