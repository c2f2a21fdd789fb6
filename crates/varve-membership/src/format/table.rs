//! Bytes of the table of nodes. Little-endian.
//!
//! ```text
//!  magic 8 B "VARVENDS" | format u16 = 1 | nodes u16 | shards u16 | zeros u16 | pool 16 B | version u64 | departures u64
//!  each node   identity 16 B | beat u64 | fingerprint 32 B | state u8: 0 stays, 1 leaves | address length u8 | address
//!  each shard  owner u16 | next u16 | state u8: 0 closed, 1 open | zeros 3 B | epoch u64
//!  checksum u64 of all before
//! ```
//! Owners are positions among the nodes, FFFF for none. Nodes stand in the order of their identities, so one table has one encoding.

use varve_stdx::{Reader, Short, Writer, checksum64};
use varve_types::{PoolId, ShardId};

use crate::{Error, Fingerprint, NODES_MAX, Node, NodeEntry, NodeId, Result, ShardEntry, Table};

const MAGIC: [u8; 8] = *b"VARVENDS";
const FORMAT: u16 = 1;
const HEADER_BYTES: usize = 48;
const NODE_BYTES: usize = 58;
const SHARD_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;
const NOBODY: u16 = u16::MAX;

const _: () = assert!(NODES_MAX < NOBODY as usize);

impl Table {
    /// Most bytes that a table with so many shards has.
    #[must_use]
    pub fn bytes_max(shard_count: u16) -> usize {
        let nodes = NODES_MAX * (NODE_BYTES + crate::ADDRESS_BYTES_MAX);
        HEADER_BYTES + nodes + usize::from(shard_count) * SHARD_BYTES + CHECKSUM_BYTES
    }

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When an owner is not in the table (T1), or something is over its limit.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let addresses: usize = self.nodes.iter().map(|entry| entry.node.address.len()).sum();
        let fixed = HEADER_BYTES + self.nodes.len() * NODE_BYTES;
        let len = fixed + addresses + self.shards.len() * SHARD_BYTES + CHECKSUM_BYTES;
        let mut bytes = vec![0; len];
        let mut out = Writer::new(&mut bytes);
        out.array(MAGIC);
        out.u16(FORMAT);
        out.u16(count(self.nodes.len()));
        out.u16(count(self.shards.len()));
        out.zeros(2);
        out.array(self.pool.0);
        out.u64(self.version);
        out.u64(self.departures);
        for NodeEntry { node, beat, is_leaving } in &self.nodes {
            out.array(node.id.0.to_le_bytes());
            out.u64(*beat);
            out.array(node.fingerprint.0);
            out.u8(u8::from(*is_leaving));
            out.u8(u8::try_from(node.address.len()).expect("checked when it joined"));
            out.bytes(node.address.as_bytes());
        }
        for shard in &self.shards {
            out.u16(self.position(shard.owner));
            out.u16(self.position(shard.next));
            out.u8(u8::from(shard.is_open));
            out.zeros(3);
            out.u64(shard.epoch);
        }
        let sum = checksum64(&bytes[..len - CHECKSUM_BYTES]);
        bytes[len - CHECKSUM_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn position(&self, node: Option<NodeId>) -> u16 {
        let Some(id) = node else { return NOBODY };
        let found = self.nodes.binary_search_by_key(&id, |entry| entry.node.id);
        count(found.expect("owners are in the table"))
    }

    /// The table that bytes hold.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Some((covered, sum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(damaged("it is too short"));
        };
        let mut reader = Reader::new(covered);
        if reader.array() != Ok(MAGIC) {
            return Err(damaged("it is no such table"));
        }
        if u64::from_le_bytes(*sum) != checksum64(covered) {
            return Err(damaged("checksum mismatch"));
        }
        let found = reader.u16().map_err(short)?;
        if found != FORMAT {
            return Err(Error::Format { found, known: FORMAT });
        }
        let table = read(&mut reader).map_err(short)??;
        if !reader.rest().is_empty() {
            return Err(damaged("it is too long"));
        }
        Ok(table)
    }
}

/// What stands behind the format's number.
fn read(reader: &mut Reader<'_>) -> std::result::Result<Result<Table>, Short> {
    let (node_count, shard_count) = (usize::from(reader.u16()?), reader.u16()?);
    if reader.u16()? != 0 || node_count > NODES_MAX || shard_count > ShardId::COUNT_MAX {
        return Ok(Err(damaged("its header makes no sense")));
    }
    let pool = PoolId(reader.array()?);
    let (version, departures) = (reader.u64()?, reader.u64()?);
    let mut nodes: Vec<NodeEntry> = Vec::with_capacity(node_count);
    for _ in 0..node_count {
        let id = NodeId(u128::from_le_bytes(reader.array()?));
        let beat = reader.u64()?;
        let fingerprint = Fingerprint(reader.array()?);
        let state = reader.u8()?;
        let address_len = usize::from(reader.u8()?);
        let Ok(address) = std::str::from_utf8(reader.bytes(address_len)?) else {
            return Ok(Err(damaged("an address is no text")));
        };
        if state > 1 || nodes.last().is_some_and(|before| before.node.id >= id) {
            return Ok(Err(damaged("a node makes no sense")));
        }
        let node = Node { id, address: address.to_owned(), fingerprint };
        nodes.push(NodeEntry { node, beat, is_leaving: state == 1 });
    }
    let mut shards = Vec::with_capacity(usize::from(shard_count));
    for _ in 0..shard_count {
        let mut at = || -> std::result::Result<Option<Option<NodeId>>, Short> {
            let position = reader.u16()?;
            if position == NOBODY {
                return Ok(Some(None));
            }
            Ok(nodes.get(usize::from(position)).map(|entry| Some(entry.node.id)))
        };
        let (Some(owner), Some(next)) = (at()?, at()?) else {
            return Ok(Err(damaged("the owner of a shard is not in it")));
        };
        let state = reader.u8()?;
        if state > 1 || reader.array()? != [0; 3] {
            return Ok(Err(damaged("a shard makes no sense")));
        }
        shards.push(ShardEntry { owner, next, is_open: state == 1, epoch: reader.u64()? });
    }
    Ok(Ok(Table { pool, version, departures, nodes, shards }))
}

fn count(len: usize) -> u16 {
    u16::try_from(len).expect("within its limit")
}

fn damaged(reason: &'static str) -> Error {
    Error::Damaged { reason }
}

fn short(_: Short) -> Error {
    damaged("it is too short")
}

#[cfg(test)]
mod tests {
    use varve_stdx::Rng;

    use super::*;

    fn table(seed: u64) -> Table {
        let mut rng = Rng::new(seed);
        let mut table = Table::new(PoolId([7; 16]), 5);
        for number in 0..rng.below(4) {
            let id = NodeId(u128::from(rng.next_u64()) << 64 | u128::from(number));
            let mut fingerprint = Fingerprint([0; 32]);
            rng.fill(&mut fingerprint.0);
            let address = format!("node{number}.example:{}", rng.below(65536));
            table.join(Node { id, address, fingerprint }).expect("there is room");
        }
        (table.version, table.departures) = (rng.next_u64(), rng.next_u64());
        table.assign();
        for number in 0..5 {
            if let Some(owner) = table.shards[number].owner {
                table.opened(ShardId(u16::try_from(number).expect("small")), owner, rng.next_u64());
            }
        }
        table.assign();
        table
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for seed in 0..50 {
            let table = table(seed);
            assert_eq!(Table::decode(&table.encode()), Ok(table.clone()));
            assert!(table.encode().len() <= Table::bytes_max(5));
        }
    }

    #[test]
    fn every_truncation_and_every_flip_is_refused() {
        let bytes = table(3).encode();
        for len in 0..bytes.len() {
            assert!(Table::decode(&bytes[..len]).is_err(), "{len} bytes are taken for a table");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Table::decode(&bytes).is_err(), "bit {bit} counts for nothing");
        }
    }

    /// With the checksum put right, as who writes nonsense would do.
    #[test]
    fn what_is_decoded_is_encoded_to_the_same_bytes() {
        let bytes = table(3).encode();
        let covered = bytes.len() - CHECKSUM_BYTES;
        for bit in 0..covered * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let sum = checksum64(&bytes[..covered]);
            bytes[covered..].copy_from_slice(&sum.to_le_bytes());
            if let Ok(table) = Table::decode(&bytes) {
                assert_eq!(table.encode(), bytes, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_later_format_is_told() {
        let mut bytes = table(1).encode();
        bytes[8] = 2;
        let covered = bytes.len() - CHECKSUM_BYTES;
        let sum = checksum64(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Table::decode(&bytes), Err(Error::Format { found: 2, known: 1 }));
    }
}
