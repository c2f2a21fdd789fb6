//! Bytes of the table of nodes. Little-endian.
//!
//! ```text
//!  magic 8 B "VARVENDS" | format u16 = 2 | nodes u16 | owner u16 | zeros u16 | pool 16 B | version u64
//!  each node   identity 16 B | beat u64 | address 16 B | port u16 | fingerprint 32 B | place length u8 | place
//!  checksum u64 of all before
//! ```
//! The owner is a position among the nodes, FFFF where there are none. Addresses are of IPv6; those of IPv4 are mapped to it.
//!
//! Format 1 lacks address, port and fingerprint. It is read, and never written: who finds its nodes there waits until they are gone (M1 of `member.rs`).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use varve_stdx::{Reader, Short, Writer, checksum64};
use varve_types::PoolId;

use crate::{
    Error, Fingerprint, NODES_MAX, Node, NodeEntry, NodeId, PLACE_BYTES_MAX, Reach, Result, Table,
};

const MAGIC: [u8; 8] = *b"VARVENDS";
const FORMAT: u16 = 2;
/// The one whose nodes are reached by nobody.
const FORMAT_WITHOUT_REACH: u16 = 1;
const HEADER_BYTES: usize = 40;
const NODE_BYTES: usize = 75;
const CHECKSUM_BYTES: usize = 8;
const NOBODY: u16 = u16::MAX;

const _: () = assert!(NODES_MAX < NOBODY as usize);

impl Table {
    /// Most bytes that a table has.
    pub const BYTES_MAX: usize =
        HEADER_BYTES + NODES_MAX * (NODE_BYTES + PLACE_BYTES_MAX) + CHECKSUM_BYTES;

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When the owner is not in the table (T1), something is over its limit, or a node is of an earlier version.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let places: usize = self.nodes.iter().map(|entry| entry.node.place.len()).sum();
        let len = HEADER_BYTES + self.nodes.len() * NODE_BYTES + places + CHECKSUM_BYTES;
        let mut bytes = vec![0; len];
        let mut out = Writer::new(&mut bytes);
        out.array(MAGIC);
        out.u16(FORMAT);
        out.u16(count(self.nodes.len()));
        out.u16(self.owner.map_or(NOBODY, |owner| self.position(owner)));
        out.zeros(2);
        out.array(self.pool.0);
        out.u64(self.version);
        for NodeEntry { node, beat } in &self.nodes {
            out.array(node.id.0.to_le_bytes());
            out.u64(*beat);
            let Reach { address, fingerprint } =
                node.reach.expect("nodes of earlier versions are gone");
            out.array(mapped(address.ip()).octets());
            out.u16(address.port());
            out.array(fingerprint.0);
            out.u8(u8::try_from(node.place.len()).expect("checked when it joined"));
            out.bytes(node.place.as_bytes());
        }
        let sum = checksum64(&bytes[..len - CHECKSUM_BYTES]);
        bytes[len - CHECKSUM_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn position(&self, id: NodeId) -> u16 {
        let found = self.nodes.iter().position(|entry| entry.node.id == id);
        count(found.expect("the owner is in the table"))
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
        if found != FORMAT && found != FORMAT_WITHOUT_REACH {
            return Err(Error::Format { found, known: FORMAT });
        }
        let table = read(&mut reader, found == FORMAT).map_err(short)??;
        if !reader.rest().is_empty() {
            return Err(damaged("it is too long"));
        }
        Ok(table)
    }
}

/// What stands behind the format's number.
fn read(reader: &mut Reader<'_>, have_reach: bool) -> std::result::Result<Result<Table>, Short> {
    let (node_count, owner) = (usize::from(reader.u16()?), reader.u16()?);
    if reader.u16()? != 0 || node_count > NODES_MAX {
        return Ok(Err(damaged("its header makes no sense")));
    }
    let (pool, version) = (PoolId(reader.array()?), reader.u64()?);
    let mut nodes: Vec<NodeEntry> = Vec::with_capacity(node_count);
    for _ in 0..node_count {
        let id = NodeId(u128::from_le_bytes(reader.array()?));
        let beat = reader.u64()?;
        let reach = if have_reach {
            let (address, port) = (Ipv6Addr::from_octets(reader.array()?), reader.u16()?);
            let address = SocketAddr::new(IpAddr::V6(address), port);
            Some(Reach::new(address, Fingerprint(reader.array()?)))
        } else {
            None
        };
        let place_len = usize::from(reader.u8()?);
        let Ok(place) = std::str::from_utf8(reader.bytes(place_len)?) else {
            return Ok(Err(damaged("a place is no text")));
        };
        if nodes.iter().any(|before| before.node.id == id) {
            return Ok(Err(damaged("a node is in it twice")));
        }
        nodes.push(NodeEntry { node: Node { id, place: place.to_owned(), reach }, beat });
    }
    let owner = match nodes.get(usize::from(owner)) {
        Some(entry) => Some(entry.node.id),
        None if owner == NOBODY && nodes.is_empty() => None,
        None => return Ok(Err(damaged("its owner is not in it"))),
    };
    Ok(Ok(Table { pool, version, nodes, owner }))
}

fn mapped(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
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
        let mut table = Table::new(PoolId([7; 16]));
        for number in 0..rng.below(4) {
            let id = NodeId(u128::from(rng.next_u64()) << 64 | u128::from(number));
            let place = format!("node{number}.example {}", rng.below(65536));
            let port = u16::try_from(rng.below(65536)).expect("16 bits");
            let ip = [Ipv6Addr::LOCALHOST, mapped("10.1.2.3".parse().expect("an address"))];
            let address = SocketAddr::new(ip[rng.index(2)].into(), port);
            let reach =
                Some(Reach::new(address, Fingerprint([u8::try_from(number).expect("few"); 32])));
            table.beat(&Node { id, place, reach }).expect("there is room");
        }
        table.version = rng.next_u64();
        if let Some(entry) = table.nodes.last_mut() {
            entry.beat = rng.next_u64();
            table.owner = Some(entry.node.id);
        }
        table
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for seed in 0..50 {
            let table = table(seed);
            assert_eq!(Table::decode(&table.encode()), Ok(table.clone()));
            assert!(table.encode().len() <= Table::BYTES_MAX);
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
        for seed in 0..8 {
            let bytes = table(seed).encode();
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
    }

    #[test]
    fn a_later_format_is_told() {
        let mut bytes = table(1).encode();
        bytes[8] = 3;
        let covered = bytes.len() - CHECKSUM_BYTES;
        let sum = checksum64(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Table::decode(&bytes), Err(Error::Format { found: 3, known: 2 }));
    }

    /// The bytes that daemons of format 1 wrote.
    #[test]
    fn a_table_of_format_1_is_read_and_its_nodes_are_reached_by_nobody() {
        let mut bytes = b"VARVENDS".to_vec();
        for half in [1u16, 1, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend([7; 16]);
        bytes.extend(9u64.to_le_bytes());
        bytes.extend(5u128.to_le_bytes());
        bytes.extend(4u64.to_le_bytes());
        bytes.extend(b"\x01a");
        bytes.extend(checksum64(&bytes).to_le_bytes());
        let table = Table::decode(&bytes).expect("it is a table");
        assert_eq!((table.version, table.owner), (9, Some(NodeId(5))));
        let node = Node { id: NodeId(5), place: "a".to_owned(), reach: None };
        assert_eq!(table.nodes, [NodeEntry { node, beat: 4 }]);
    }
}
