//! One node's part in the table: what it makes of what it reads, and what it wants to put in its place.
//!
//! ```text
//!  outside ──joins──▶ stands by ──is named──▶ owner ──leave(), once it has closed all of its cells──▶ left
//!                        │  ▲                    │ release() the last of its cells
//!                        │  └────────────────────┤
//!                        └──others took it out──▶ given up
//! ```
//!
//! MEMBER-1. Silence is counted by this node's clock, from when a read had returned that showed a beat first, and
//!     whoever raises it meanwhile makes the replacement fail that gives it up: so the beat stood still for all of that
//!     time. No clocks of two nodes are compared.
//! MEMBER-2. Silence counts while this node reads regularly only. What stands in the way of its reads may stand in the
//!     way of others' beats.
//! MEMBER-3. A node that was taken out does not come back: it holds nothing that is its own any more, and its first
//!     beat would be taken for the one that stood still. Nor does one that may have been in the table without hearing
//!     of it. Who was refused in so many words was not in it: it tries again, as the same node.
//! MEMBER-4. A cell that was given stays given until the table shows it, whatever becomes of the answers: then it may
//!     be another one's, or this node's again.
//! MEMBER-5. A node has left once the table shows that it is not in it, and never will be: one that may be in it
//!     without hearing of it looks again, and raises the version where an attempt of its own to join may still be on
//!     its way.
//! MEMBER-6. Nodes of an earlier version do not know the present format: as long as one of them is in the table, this
//!     one writes nothing, and is outside. Once the last one has left or is silent, it joins, in the present format.

use std::collections::{BTreeMap, BTreeSet};

use varve_types::{CellId, PoolId};

use crate::{Error, MemberTable, Node, NodeEntry, NodeId, Result};

/// Pause between two beats of a node, in ns.
pub const BEAT_NS: u64 = 500_000_000;

/// A node whose beat stands still for so long is given up, in ns: as many beats as a busy cluster may swallow. It loses
/// the pool, but no data.
pub const SILENCE_NS: u64 = 3_000_000_000;

/// Reads that lie further apart than this, in ns, are not regular (MEMBER-2): some beats.
const GAP_NS: u64 = 3 * BEAT_NS;

const _: () = assert!(GAP_NS < SILENCE_NS);

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// Not in the table yet.
    Outside,
    /// In the table; others are to serve the pool.
    StandsBy,
    /// It is to serve a cell, or several.
    Owner,
    /// Out of the table, as it wanted.
    Left,
    /// Others took it out (MEMBER-3).
    GivenUp,
}

/// What a node joins, and what for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinRequest {
    /// The pool.
    pub pool: PoolId,
    /// Its cells.
    pub cells: u16,
    /// How many of them the node serves at most; at least one.
    pub room: u16,
    /// Whether it begins moves, so that all nodes have as many.
    pub balances: bool,
}

impl JoinRequest {
    /// A pool of one cell.
    #[must_use]
    pub fn whole(pool: PoolId) -> Self {
        Self { pool, cells: 1, room: 1, balances: false }
    }
}

/// When a beat was seen first.
struct HeartbeatSighting {
    beat: u64,
    since_ns: u64,
}

/// Attempts to join whose end is not known.
#[derive(Clone, Copy)]
struct Join {
    /// The version that the table would have got, the next one: of those at earlier ones the table has told.
    version: u64,
    /// How many of them.
    attempts: usize,
}

/// One node's view of the table.
pub struct Member {
    node: Node,
    joining: JoinRequest,
    standing: MemberState,
    wants_to_leave: bool,
    /// How it tried to join last, where that was not refused.
    join: Option<Join>,
    /// Cells that it has closed for who is next (MEMBER-4).
    given: BTreeSet<CellId>,
    /// Those of them that its last proposal gives.
    proposed: BTreeSet<CellId>,
    table: Option<MemberTable>,
    seen: BTreeMap<NodeId, HeartbeatSighting>,
    silent: BTreeSet<NodeId>,
    /// When the last read had returned.
    read_ns: Option<u64>,
}

impl Member {
    /// A node that has not joined yet.
    ///
    /// # Errors
    /// [`Error::PlaceTooLong`].
    ///
    /// # Panics
    /// When the pool has no cell, or more than it can.
    pub fn new(node: Node, joining: JoinRequest) -> Result<Self> {
        node.check()?;
        assert!((1..=CellId::COUNT_MAX).contains(&joining.cells), "a pool has cells");
        Ok(Self {
            node,
            joining,
            standing: MemberState::Outside,
            wants_to_leave: false,
            join: None,
            given: BTreeSet::new(),
            proposed: BTreeSet::new(),
            table: None,
            seen: BTreeMap::new(),
            silent: BTreeSet::new(),
            read_ns: None,
        })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.node.id
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> MemberState {
        self.standing
    }

    /// Who is to serve a cell, by the table as it was last seen.
    #[must_use]
    pub fn owner(&self, cell: CellId) -> Option<&Node> {
        let table = self.table.as_ref()?;
        table.node(table.owner(cell)?).map(|entry| &entry.node)
    }

    /// The cells that this node is to serve, by that table; with those that are to move on, until it gave them.
    pub fn serves(&self) -> impl Iterator<Item = CellId> {
        self.own_cells().map(|(cell, _)| cell)
    }

    /// Those of them that it is to close, and then to give.
    pub fn moves(&self) -> impl Iterator<Item = CellId> {
        self.own_cells().filter(|(_, is_moving)| *is_moving).map(|(cell, _)| cell)
    }

    fn own_cells(&self) -> impl Iterator<Item = (CellId, bool)> {
        let is_out = self.wants_to_leave || self.standing == MemberState::GivenUp;
        let cells = self.table.iter().filter(move |_| !is_out).flat_map(MemberTable::numbered);
        cells
            .filter(|(cell, entry)| entry.owner == Some(self.node.id) && !self.given.contains(cell))
            .map(|(cell, entry)| (cell, entry.next.is_some()))
    }

    /// It has closed a cell that it served, for who is next.
    pub fn release(&mut self, cell: CellId) {
        self.given.insert(cell);
    }

    /// From now on it wants to be out, and serves nothing. It has closed all of its cells: others open them once the
    /// table shows it.
    pub fn leave(&mut self) {
        self.wants_to_leave = true;
        if self.standing == MemberState::Outside && self.join.is_none() {
            self.standing = MemberState::Left; // MEMBER-5
        }
    }

    /// Takes in what a read found that has returned now, by a clock that goes on while the machine sleeps.
    ///
    /// # Errors
    /// When it is not the table that is to be there: then nothing is taken in.
    pub fn observe(&mut self, found: Option<MemberTable>, now_ns: u64) -> Result<()> {
        self.check(found.as_ref())?;
        let last_ns = self.read_ns.replace(now_ns).unwrap_or(now_ns);
        let is_regular = now_ns.saturating_sub(last_ns) <= GAP_NS;
        let entries = found.as_ref().map_or(&[][..], |table| &table.nodes);
        self.silent.clear();
        let mut seen = BTreeMap::new();
        for entry in entries.iter().filter(|entry| entry.node.id != self.node.id) {
            let (id, beat) = (entry.node.id, entry.beat);
            let before = self.seen.get(&id).filter(|before| before.beat == beat && is_regular); // MEMBER-2
            let since_ns = before.map_or(now_ns, |before| before.since_ns);
            if now_ns.saturating_sub(since_ns) >= SILENCE_NS {
                self.silent.insert(id); // MEMBER-1
            }
            seen.insert(id, HeartbeatSighting { beat, since_ns });
        }
        self.seen = seen;
        self.table = found;
        let (table, me) = (&self.table, self.node.id);
        // MEMBER-4
        self.given.retain(|cell| table.as_ref().and_then(|table| table.owner(*cell)) == Some(me));
        self.stand();
        Ok(())
    }

    fn check(&self, found: Option<&MemberTable>) -> Result<()> {
        let known = self.table.as_ref().map_or(0, |table| table.version);
        let version = found.map_or(0, |table| table.version);
        if version < known {
            return Err(Error::WentBack { known, found: version });
        }
        let cells = usize::from(self.joining.cells);
        match found {
            Some(table) if table.pool != self.joining.pool => {
                Err(Error::OfAnother { pool: table.pool })
            }
            Some(table) if table.cells.len() != cells => {
                Err(Error::OtherCells { found: table.cells.len(), known: cells })
            }
            _ => Ok(()),
        }
    }

    /// Where it stands by the table it has.
    fn stand(&mut self) {
        let id = self.node.id;
        let is_in = self.table.as_ref().is_some_and(|table| table.node(id).is_some());
        let version = self.table.as_ref().map_or(0, |table| table.version);
        // The table of that very version is another node's, or this one is in it. A later one does not tell.
        let join = self.join.take_if(|join| join.version <= version);
        let was_perhaps_in = join.is_some_and(|join| join.version < version);
        let mut cells = self.table.iter().flat_map(|table| &table.cells);
        let is_owner = cells.any(|cell| cell.owner == Some(id));
        self.standing = match self.standing {
            MemberState::GivenUp => MemberState::GivenUp, // MEMBER-3
            MemberState::Left => MemberState::Left,
            _ if is_owner => MemberState::Owner,
            _ if is_in => MemberState::StandsBy,
            MemberState::Outside if self.wants_to_leave && self.join.is_none() => MemberState::Left, // MEMBER-5
            MemberState::Outside if was_perhaps_in => MemberState::GivenUp, // MEMBER-3
            MemberState::Outside => MemberState::Outside,
            // By its own replacement, whose answer was lost, or by others: it has nothing to lose.
            MemberState::StandsBy | MemberState::Owner if self.wants_to_leave => MemberState::Left,
            MemberState::StandsBy | MemberState::Owner => MemberState::GivenUp, // MEMBER-3
        };
    }

    /// Whether it is outside because nodes of an earlier version are in the table (MEMBER-6).
    #[must_use]
    pub fn waits_for_earlier(&self) -> bool {
        let mut nodes = self.table.iter().flat_map(|table| &table.nodes);
        nodes.any(|NodeEntry { node, .. }| node.reach.is_none() && !self.silent.contains(&node.id))
    }

    /// The table as it was last seen.
    #[must_use]
    pub fn table(&self) -> Option<&MemberTable> {
        self.table.as_ref()
    }

    /// The table that it wants in the place of the one it saw last; nothing once it is out, and while it waits for
    /// earlier versions (MEMBER-6).
    ///
    /// # Errors
    /// [`Error::TooManyNodes`].
    pub fn proposal(&mut self) -> Result<Option<MemberTable>> {
        if matches!(self.standing, MemberState::GivenUp | MemberState::Left)
            || self.waits_for_earlier()
        {
            return Ok(None);
        }
        let JoinRequest { pool, cells, room, balances } = self.joining;
        let before = self.table.clone();
        let mut table = before.unwrap_or_else(|| MemberTable::of_cells(pool, cells));
        table.version += 1;
        for silent in &self.silent {
            table.remove(*silent);
        }
        if self.wants_to_leave {
            table.remove(self.node.id);
        } else {
            table.beat(&self.node, room)?;
            if self.standing == MemberState::Outside {
                let attempts = 1 + self.join.map_or(0, |join| join.attempts);
                self.join = Some(Join { version: table.version, attempts });
            }
            self.proposed.clone_from(&self.given);
            for cell in &self.proposed {
                table.give(*cell, self.node.id);
            }
        }
        if balances {
            table.balance();
        }
        Ok(Some(table))
    }

    /// Its proposal is not the table, and never will be: another node was faster.
    pub fn refused(&mut self) {
        self.join = self.join.and_then(|Join { version, attempts }| {
            (attempts > 1).then(|| Join { version, attempts: attempts - 1 })
        });
    }

    /// Its proposal is the table now.
    pub fn accepted(&mut self, table: MemberTable) {
        for cell in std::mem::take(&mut self.proposed) {
            self.given.remove(&cell); // MEMBER-4
        }
        self.table = Some(table);
        self.stand();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fingerprint, NodeAddress};

    fn member(number: u128) -> Member {
        Member::new(node(number), JoinRequest::whole(PoolId([7; 16]))).expect("the place is short")
    }

    fn node(number: u128) -> Node {
        let address = "127.0.0.1:1".parse().expect("an address");
        let reach = Some(NodeAddress::new(address, Fingerprint([1; 32])));
        Node { id: NodeId(number), place: "a".to_owned(), reach }
    }

    #[test]
    fn nodes_of_an_earlier_version_are_waited_for_until_they_are_silent() {
        let (mut member, mut table) = (member(1), MemberTable::new(PoolId([7; 16])));
        let earlier = Node { reach: None, ..node(2) };
        for beat in 0..10 {
            table.beat(&earlier, 1).expect("there is room");
            table.version += 1;
            member.observe(Some(table.clone()), beat * BEAT_NS).expect("it is a later table");
            assert!(member.waits_for_earlier());
            assert_eq!((member.proposal(), member.standing()), (Ok(None), MemberState::Outside)); // MEMBER-6
        }
        for beat in 10..16 {
            member.observe(Some(table.clone()), beat * BEAT_NS).expect("the same table");
        }
        let wanted = member.proposal().expect("there is room").expect("it joins");
        assert_eq!(wanted.owner(CellId::FIRST), Some(member.id()));
        assert!(wanted.node(earlier.id).is_none());
        let read = MemberTable::decode(&wanted.encode());
        assert_eq!(read, Ok(wanted));
        let empty = MemberTable { version: table.version, ..MemberTable::new(PoolId([7; 16])) };
        member.observe(Some(empty), 16 * BEAT_NS).unwrap();
        assert!(!member.waits_for_earlier(), "the last one has left");
    }

    #[test]
    fn who_was_taken_out_does_not_come_back() {
        let mut member = member(1);
        member.observe(None, 0).expect("there was no table");
        let table = member.proposal().expect("there is room").expect("it wants to join");
        member.accepted(table.clone());
        assert_eq!(member.standing(), MemberState::Owner);
        let mut without = table.clone();
        without.remove(member.id());
        without.version += 1;
        let again = MemberTable { version: without.version + 1, ..table };
        for later in [without, again] {
            member.observe(Some(later), 1).expect("it is a later table");
            assert_eq!(member.standing(), MemberState::GivenUp); // MEMBER-3
            assert_eq!(member.proposal(), Ok(None));
        }
    }

    fn empty(version: u64) -> Option<MemberTable> {
        Some(MemberTable { version, ..MemberTable::new(PoolId([7; 16])) })
    }

    /// A node that saw an empty table of version 4, and wants to join.
    fn joining() -> (Member, MemberTable) {
        let mut member = member(1);
        member.observe(empty(4), 0).expect("it is the first one");
        let wanted = member.proposal().expect("there is room").expect("it wants to join");
        (member, wanted)
    }

    #[test]
    fn who_may_have_been_in_without_hearing_of_it_does_not_come_back() {
        let (mut member, _) = joining();
        member.observe(empty(5), 1).expect("another node was faster");
        assert_eq!(member.standing(), MemberState::Outside);
        assert!(member.proposal().expect("there is room").is_some());
        member.observe(empty(7), 2).expect("it was in the sixth one, or was not");
        assert_eq!(member.standing(), MemberState::GivenUp); // MEMBER-3
    }

    #[test]
    fn who_was_refused_tries_again_as_the_same_node() {
        let (mut member, _) = joining();
        member.refused();
        member.observe(empty(9), 1).expect("others were faster");
        assert_eq!(member.standing(), MemberState::Outside);
        // Nothing is heard of this attempt, and the next one is refused: because of the first, perhaps.
        assert!(member.proposal().expect("there is room").is_some());
        member.observe(empty(9), 2).expect("the same table");
        assert!(member.proposal().expect("there is room").is_some());
        member.refused();
        member.observe(empty(11), 3).expect("it was in the tenth one, or was not");
        assert_eq!(member.standing(), MemberState::GivenUp); // MEMBER-3
    }

    #[test]
    fn who_leaves_while_it_is_perhaps_in_the_table_looks_again() {
        // It was: it takes itself out.
        let (mut member, wanted) = joining();
        member.leave();
        assert_eq!(member.standing(), MemberState::Outside); // MEMBER-5
        member.observe(Some(wanted), 1).expect("it was stored");
        assert!(member.serves().next().is_none(), "it wants to leave");
        let without = member.proposal().expect("there is room").expect("it is in the table");
        assert!(without.nodes.is_empty());
        member.accepted(without);
        assert_eq!(member.standing(), MemberState::Left);
        // It was not, and what is on its way comes too late.
        for found in [empty(5), empty(6)] {
            let (mut member, _) = joining();
            member.leave();
            member.observe(found, 1).expect("it is a later table");
            assert_eq!(member.standing(), MemberState::Left);
        }
        // It is not yet: it sees to it that what is on its way comes too late.
        let (mut member, _) = joining();
        member.leave();
        member.observe(empty(4), 1).expect("the same table");
        assert_eq!(member.standing(), MemberState::Outside); // MEMBER-5
        let raised = member.proposal().expect("there is room").expect("it raises the version");
        assert_eq!((raised.version, raised.nodes.len()), (5, 0));
        member.accepted(raised);
        assert_eq!((member.standing(), member.proposal()), (MemberState::Left, Ok(None)));
    }

    #[test]
    fn who_wants_to_leave_serves_nothing_any_more() {
        let (mut member, wanted) = joining();
        member.accepted(wanted);
        assert!(member.serves().eq([CellId::FIRST]));
        member.leave();
        assert_eq!(member.standing(), MemberState::Owner, "by the table");
        assert!(member.serves().next().is_none() && member.moves().next().is_none());
    }

    #[test]
    fn a_cell_that_was_given_and_came_back_is_served_again() {
        let pool = PoolId([7; 16]);
        let joining = JoinRequest { pool, cells: 2, room: 2, balances: false };
        let mut member = Member::new(node(1), joining).expect("the place is short");
        member.observe(None, 0).expect("there was no table");
        let mut table = member.proposal().expect("there is room").expect("it wants to join");
        table.beat(&node(2), 2).expect("there is room");
        table.cells[0].next = Some(NodeId(2));
        member.accepted(table.clone());
        assert!(member.serves().eq([CellId(0), CellId(1)]) && member.moves().eq([CellId(0)]));
        member.release(CellId(0));
        assert!(member.serves().eq([CellId(1)]) && member.moves().next().is_none());
        let given = member.proposal().expect("there is room").expect("it beats");
        assert_eq!(given.owner(CellId(0)), Some(NodeId(2)));
        // The answer is lost: by the table as it was, the word counts still (MEMBER-4).
        member.observe(Some(table), 1).expect("the same table");
        assert!(member.serves().eq([CellId(1)]));
        member.observe(Some(given.clone()), 2).expect("it was replaced all the same");
        let mut back = given;
        back.version += 1;
        back.remove(NodeId(2));
        member.observe(Some(back), 3).expect("it is a later table");
        assert!(member.serves().eq([CellId(0), CellId(1)]));
    }

    #[test]
    fn a_cell_that_goes_to_nobody_else_is_served_again() {
        let pool = PoolId([7; 16]);
        let mut member = member(1);
        member.observe(None, 0).expect("there was no table");
        let mut table = member.proposal().expect("there is room").expect("it wants to join");
        table.beat(&node(2), 1).expect("there is room");
        table.cells[0].next = Some(NodeId(2));
        member.accepted(table.clone());
        member.release(CellId::FIRST);
        table.version += 1;
        table.remove(NodeId(2));
        member.observe(Some(table), 1).expect("who was next is gone");
        let table = member.proposal().expect("there is room").expect("it beats");
        assert_eq!((table.pool, table.owner(CellId::FIRST)), (pool, Some(NodeId(1))));
        assert!(member.serves().next().is_none(), "it is closed until the table says so");
        member.accepted(table);
        assert!(member.serves().eq([CellId::FIRST]));
    }

    #[test]
    fn a_table_that_went_back_or_is_of_another_pool_is_not_believed() {
        let mut member = member(1);
        let mut table = MemberTable::new(PoolId([7; 16]));
        table.version = 4;
        member.observe(Some(table.clone()), 0).expect("it is the first one");
        let older = MemberTable { version: 3, ..table.clone() };
        assert_eq!(member.observe(Some(older), 1), Err(Error::WentBack { known: 4, found: 3 }));
        assert_eq!(member.observe(None, 1), Err(Error::WentBack { known: 4, found: 0 }));
        let pool = PoolId([8; 16]);
        let other = MemberTable { version: 5, pool, ..table };
        assert_eq!(member.observe(Some(other), 1), Err(Error::OfAnother { pool }));
        let several = MemberTable { version: 5, ..MemberTable::of_cells(PoolId([7; 16]), 3) };
        let refused = member.observe(Some(several), 1);
        assert_eq!(refused, Err(Error::OtherCells { found: 3, known: 1 }));
    }

    #[test]
    fn silence_counts_between_regular_reads_only() {
        let (mut member, mut table) = (member(1), MemberTable::new(PoolId([7; 16])));
        let other = node(2);
        table.beat(&other, 1).expect("there is room");
        let mut is_out_after = |reads: &[u64]| {
            for now in reads {
                member.observe(Some(table.clone()), now * BEAT_NS).expect("the same table");
            }
            let wanted = member.proposal().expect("there is room").expect("it wants to join");
            wanted.node(other.id).is_none()
        };
        assert!(!is_out_after(&[0, 1, 2, 3, 4, 5])); // MEMBER-1
        assert!(!is_out_after(&[9])); // MEMBER-2
        assert!(!is_out_after(&[10, 11, 12, 13, 14]));
        assert!(is_out_after(&[15]));
    }
}
