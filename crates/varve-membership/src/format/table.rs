//! Bytes of the table of nodes. Little-endian.
//!
//! ```text
//!  magic 8 B "VARVENDS" | format u16 = 2 | nodes u16 | owner u16 | zeros u16 | pool 16 B | version u64
//!  each node   identity 16 B | beat u64 | address 16 B | port u16 | fingerprint 32 B | place length u8 | place
//!  checksum u64 of all before
//! ```
//! The owner is a position among the nodes, FFFF where there are none. Addresses are of IPv6; those of IPv4 are mapped
//! to it.
//!
//! A pool of several cells has format 3: the number of cells stands in the place of the owner, a node's room u16 before
//! the length of its place, and behind the nodes, for each cell, its owner u16 and who is next u16. Programs that do
//! not know it do not open such pools, so formats 2 and 3 never meet.
//!
//! Format 1 lacks address, port and fingerprint. It is read, and never written: who finds its nodes there waits until
//! they are gone (MEMBER-6).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use varve_stdx::{DecodeError, Reader, Writer, checksum64};
use varve_types::{CellId, PoolId};

use crate::{
    CellEntry, Error, Fingerprint, MemberTable, NODES_MAX, Node, NodeAddress, NodeEntry, NodeId,
    PLACE_BYTES_MAX, Result,
};

const MAGIC: [u8; 8] = *b"VARVENDS";
const WHAT: &str = "table of nodes";
/// The one of pools of several cells.
const FORMAT: u16 = 3;
const FORMAT_OF_ONE_CELL: u16 = 2;
/// The one whose nodes are reached by nobody.
const FORMAT_WITHOUT_REACH: u16 = 1;
const HEADER_BYTES: usize = 40;
/// Without a place; the room is in format 3 only.
const NODE_BYTES: usize = 75;
const ROOM_BYTES: usize = 2;
const CELL_BYTES: usize = 4;
const CHECKSUM_BYTES: usize = 8;
const NOBODY: u16 = u16::MAX;

const _: () = assert!(NODES_MAX < NOBODY as usize);

impl MemberTable {
    /// Most bytes that a table has.
    pub const BYTES_MAX: usize = HEADER_BYTES
        + NODES_MAX * (NODE_BYTES + ROOM_BYTES + PLACE_BYTES_MAX)
        + CellId::COUNT_MAX as usize * CELL_BYTES
        + CHECKSUM_BYTES;

    /// The bytes that are stored.
    ///
    /// # Panics
    /// When an owner, or who is next, is not in the table (TABLE-1), something is over its limit, or a node is of an
    /// earlier version.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let places: usize = self.nodes.iter().map(|entry| entry.node.place.len()).sum();
        let are_several = self.cells.len() > 1;
        let node_bytes = NODE_BYTES + if are_several { ROOM_BYTES } else { 0 };
        let cell_bytes = if are_several { self.cells.len() * CELL_BYTES } else { 0 };
        let covered = HEADER_BYTES + self.nodes.len() * node_bytes + places + cell_bytes;
        let mut bytes = vec![0; covered + CHECKSUM_BYTES];
        let mut out = Writer::new(&mut bytes);
        out.array(MAGIC);
        out.u16(if are_several { FORMAT } else { FORMAT_OF_ONE_CELL });
        out.u16(count(self.nodes.len()));
        out.u16(match &self.cells[..] {
            [only] => self.position(only.owner),
            cells => count(cells.len()),
        });
        out.zeros(2);
        out.array(self.pool.0);
        out.u64(self.version);
        for NodeEntry { node, beat, room } in &self.nodes {
            out.array(node.id.0.to_le_bytes());
            out.u64(*beat);
            let NodeAddress { address, fingerprint } =
                node.reach.expect("nodes of earlier versions are gone");
            out.array(mapped(address.ip()).octets());
            out.u16(address.port());
            out.array(fingerprint.0);
            if are_several {
                out.u16(*room);
            }
            out.u8(u8::try_from(node.place.len()).expect("checked when it joined"));
            out.bytes(node.place.as_bytes());
        }
        for CellEntry { owner, next } in self.cells.iter().filter(|_| are_several) {
            out.u16(self.position(*owner));
            out.u16(self.position(*next));
        }
        let sum = checksum64(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn position(&self, id: Option<NodeId>) -> u16 {
        id.map_or(NOBODY, |id| {
            let found = self.nodes.iter().position(|entry| entry.node.id == id);
            count(found.expect("who has a cell is in the table"))
        })
    }

    /// The table that bytes hold.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Format`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let all = Reader::new(WHAT, bytes);
        let Some((covered, sum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
            return Err(all.inconsistent("it is shorter than its checksum").into());
        };
        let mut fields = Reader::new(WHAT, covered);
        fields.magic(MAGIC)?;
        if u64::from_le_bytes(*sum) != checksum64(covered) {
            return Err(all.inconsistent("checksum mismatch").into());
        }
        let found = fields.u16()?;
        if !(FORMAT_WITHOUT_REACH..=FORMAT).contains(&found) {
            return Err(Error::Format { found, known: FORMAT });
        }
        let table = read(&mut fields, found)?;
        fields.end()?;
        Ok(table)
    }
}

/// What stands behind the format's number.
fn read(fields: &mut Reader<'_>, format: u16) -> std::result::Result<MemberTable, DecodeError> {
    let are_several = format == FORMAT;
    let (node_count, third) = (usize::from(fields.u16()?), fields.u16()?);
    let cell_count = if are_several { third } else { 1 };
    let cells_min = if are_several { 2 } else { 1 };
    fields.zeros(2)?;
    if node_count > NODES_MAX {
        return Err(fields.bad("count of nodes", node_count as u64));
    }
    if !(cells_min..=CellId::COUNT_MAX).contains(&cell_count) {
        return Err(fields.bad("count of cells", u64::from(cell_count)));
    }
    let (pool, version) = (PoolId(fields.array()?), fields.u64()?);
    let mut nodes: Vec<NodeEntry> = Vec::with_capacity(node_count);
    for _ in 0..node_count {
        let node = read_node(fields, format, cell_count)?;
        if nodes.iter().any(|before| before.node.id == node.node.id) {
            return Err(fields.inconsistent("a node is in it twice"));
        }
        nodes.push(node);
    }
    let mut cells = Vec::with_capacity(usize::from(cell_count));
    for _ in 0..cell_count {
        let (owner, next) =
            if are_several { (fields.u16()?, fields.u16()?) } else { (third, NOBODY) };
        let (Some(owner), Some(next)) = (whom(&nodes, owner), whom(&nodes, next)) else {
            return Err(fields.inconsistent("an owner is not in it"));
        };
        // Only rooms may leave a cell to nobody, and a cell is moved by its owner.
        let is_sane = match (owner, next) {
            (None, None) => are_several || nodes.is_empty(),
            (owner, next) => owner.is_some() && owner != next,
        };
        if !is_sane {
            let reason = "a cell is served by nobody, or moved to where it is";
            return Err(fields.inconsistent(reason));
        }
        cells.push(CellEntry { owner, next });
    }
    Ok(MemberTable { pool, version, nodes, cells })
}

fn read_node(
    fields: &mut Reader<'_>,
    format: u16,
    cell_count: u16,
) -> std::result::Result<NodeEntry, DecodeError> {
    let id = NodeId(fields.u128()?);
    let beat = fields.u64()?;
    let reach = if format == FORMAT_WITHOUT_REACH {
        None
    } else {
        let (address, port) = (Ipv6Addr::from_octets(fields.array()?), fields.u16()?);
        let address = SocketAddr::new(IpAddr::V6(address), port);
        Some(NodeAddress::new(address, Fingerprint(fields.array()?)))
    };
    let room = if format == FORMAT { fields.u16()? } else { 1 };
    if !(1..=cell_count).contains(&room) {
        return Err(fields.bad("room of a node", u64::from(room)));
    }
    let place_len = usize::from(fields.u8()?);
    let place = fields.text("place of a node", place_len)?.to_owned();
    Ok(NodeEntry { node: Node { id, place, reach }, beat, room })
}

/// The node at a position; `None` where there is none.
fn whom(nodes: &[NodeEntry], position: u16) -> Option<Option<NodeId>> {
    match nodes.get(usize::from(position)) {
        Some(entry) => Some(Some(entry.node.id)),
        None if position == NOBODY => Some(None),
        None => None,
    }
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

#[cfg(test)]
mod tests {
    use varve_stdx::{ExamplesPage, Rng};

    use super::*;

    fn table(seed: u64) -> MemberTable {
        let mut rng = Rng::new(seed);
        let cells = if seed.is_multiple_of(2) { 1 } else { 2 + u16::try_from(seed % 5).unwrap() };
        let mut table = MemberTable::of_cells(PoolId([7; 16]), cells);
        for number in 0..rng.below(4) {
            let id = NodeId(u128::from(rng.next_u64()) << 64 | u128::from(number));
            let place = format!("node{number}.example {}", rng.below(65536));
            let port = u16::try_from(rng.below(65536)).expect("16 bits");
            let ip = [Ipv6Addr::LOCALHOST, mapped("10.1.2.3".parse().expect("an address"))];
            let address = SocketAddr::new(ip[rng.index(2)].into(), port);
            let reach = Some(NodeAddress::new(
                address,
                Fingerprint([u8::try_from(number).expect("few"); 32]),
            ));
            table.beat(&Node { id, place, reach }, 2).expect("there is room");
        }
        table.version = rng.next_u64();
        if let Some(entry) = table.nodes.last_mut() {
            entry.beat = rng.next_u64();
            let last = Some(entry.node.id);
            table.cells[0].owner = last;
            if cells > 1 {
                table.cells[1].next = last.filter(|last| table.cells[1].owner != Some(*last));
            }
        }
        table
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for seed in 0..50 {
            let table = table(seed);
            assert_eq!(MemberTable::decode(&table.encode()), Ok(table.clone()));
            assert!(table.encode().len() <= MemberTable::BYTES_MAX);
        }
    }

    #[test]
    fn the_page_of_examples_shows_what_is_stored() {
        let node = |id: u8, address: &str| {
            let reach = NodeAddress::new(address.parse().unwrap(), Fingerprint([id; 32]));
            Node { id: NodeId(id.into()), place: format!("node{id}.example"), reach: Some(reach) }
        };
        let nodes = [node(5, "10.1.2.3:7444"), node(6, "[::1]:7444")];
        let mut table = MemberTable::new(PoolId([7; 16]));
        for node in &nodes {
            table.beat(node, 1).expect("there is room");
        }
        let bytes = table.encode();
        assert_eq!(MemberTable::decode(&bytes), Ok(table));
        let first = &bytes[HEADER_BYTES..][..NODE_BYTES + nodes[0].place.len()];
        ExamplesPage::new("nodes", "the table of nodes", "varve-membership")
            .example("Table of nodes", &bytes)
            .example("Node", first)
            .compare();
    }

    #[test]
    fn every_truncation_and_every_flip_is_refused() {
        for bytes in [table(3).encode(), table(4).encode()] {
            for len in 0..bytes.len() {
                assert!(
                    MemberTable::decode(&bytes[..len]).is_err(),
                    "{len} bytes are taken for a table"
                );
            }
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(MemberTable::decode(&bytes).is_err(), "bit {bit} counts for nothing");
            }
        }
    }

    /// With the checksum put right, as who writes nonsense would do.
    #[test]
    fn what_is_decoded_is_encoded_to_the_same_bytes() {
        for seed in 0..12 {
            let bytes = table(seed).encode();
            let covered = bytes.len() - CHECKSUM_BYTES;
            for bit in 0..covered * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let sum = checksum64(&bytes[..covered]);
                bytes[covered..].copy_from_slice(&sum.to_le_bytes());
                let Ok(table) = MemberTable::decode(&bytes) else { continue };
                // Format 1 is only read.
                if bytes[8] != 1 {
                    assert_eq!(table.encode(), bytes, "bit {bit}");
                }
            }
        }
    }

    #[test]
    fn a_later_format_is_told() {
        let mut bytes = table(1).encode();
        bytes[8] = 4;
        let covered = bytes.len() - CHECKSUM_BYTES;
        let sum = checksum64(&bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(MemberTable::decode(&bytes), Err(Error::Format { found: 4, known: 3 }));
    }

    /// The bytes that daemons of format 2 write: those of this version mix with them on pools of one cell.
    #[test]
    fn a_table_of_one_cell_has_format_2() {
        let mut table = MemberTable::new(PoolId([7; 16]));
        let reach = NodeAddress::new("[::1]:258".parse().unwrap(), Fingerprint([3; 32]));
        let node = Node { id: NodeId(5), place: "a".to_owned(), reach: Some(reach) };
        table.beat(&node, u16::MAX).expect("there is room");
        table.version = 9;
        let mut bytes = b"VARVENDS".to_vec();
        for half in [2u16, 1, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend([7; 16]);
        bytes.extend(9u64.to_le_bytes());
        bytes.extend(5u128.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(258u16.to_le_bytes());
        bytes.extend([3; 32]);
        bytes.extend(b"\x01a");
        bytes.extend(checksum64(&bytes).to_le_bytes());
        assert_eq!(table.encode(), bytes);
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
        let table = MemberTable::decode(&bytes).expect("it is a table");
        assert_eq!((table.version, table.owner(CellId::FIRST)), (9, Some(NodeId(5))));
        let node = Node { id: NodeId(5), place: "a".to_owned(), reach: None };
        assert_eq!(table.nodes, [NodeEntry { node, beat: 4, room: 1 }]);
    }
}
