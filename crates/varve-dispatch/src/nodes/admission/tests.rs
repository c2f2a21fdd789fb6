//! Each rule by itself; `tests/late_requests_are_refused.rs` has them together.

use varve_membership::{Fingerprint, Node, NodeEntry};
use varve_types::PoolId;

use super::*;

const EPOCH: u64 = 7;

/// A table with these nodes.
fn table(version: u64, departures: u64, nodes: &[u128]) -> Table {
    let entry = |id: &u128| NodeEntry {
        node: Node {
            id: NodeId(*id),
            address: String::new(),
            fingerprint: Fingerprint([0; 32]),
        },
        beat: 0,
        is_leaving: false,
    };
    let nodes = nodes.iter().map(entry).collect();
    Table { version, departures, nodes, ..Table::new(PoolId([7; 16]), 1) }
}

fn link(node: u128, link: u64) -> NodeLink {
    NodeLink { node: NodeId(node), link }
}

fn ticket(link: NodeLink, request: u64) -> Ticket {
    Ticket { link, request, connection: 3, shard: ShardId(0), epoch: EPOCH, departures: 0 }
}

/// A judge that has welcomed a link of each node.
fn judge(nodes: &[u128]) -> Admission {
    let mut judge = Admission::new();
    judge.saw(&table(1, 0, nodes));
    for node in nodes {
        judge.hello(link(*node, 1)).unwrap();
    }
    judge
}

/// Has come, and is begun if that is allowed.
fn begin(judge: &mut Admission, ticket: &Ticket) -> Result<Turn, Refusal> {
    judge.received(ticket)?;
    judge.begin(ticket, Some(EPOCH))
}

#[test]
fn another_epoch_is_refused() {
    let mut judge = judge(&[1]);
    for (request, serves) in [(1, None), (2, Some(EPOCH - 1)), (3, Some(EPOCH + 1))] {
        let ticket = ticket(link(1, 1), request);
        judge.received(&ticket).unwrap();
        assert_eq!(judge.begin(&ticket, serves), Err(Refusal::NotServed { serves }));
        assert_eq!(judge.begin(&ticket, Some(EPOCH)), Err(Refusal::NoConnection), "answered once");
    }
    assert_eq!(begin(&mut judge, &ticket(link(1, 1), 4)), Ok(Turn::Now));
}

#[test]
fn only_the_newest_link_is_heard_once_older_ones_are_quiet() {
    let mut judge = judge(&[1]);
    let (begun, waits) = (ticket(link(1, 1), 1), ticket(link(1, 1), 2));
    assert_eq!(begin(&mut judge, &begun), Ok(Turn::Now));
    judge.received(&waits).unwrap();
    judge.hello(link(1, 2)).unwrap();
    assert_eq!(judge.hello(link(1, 2)), Err(Refusal::NoLink));
    assert!(!judge.is_quiet(link(1, 2)));
    assert_eq!(judge.begin(&waits, Some(EPOCH)), Err(Refusal::NoLink));
    assert_eq!(judge.received(&ticket(link(1, 1), 3)), Err(Refusal::NoLink));
    judge.ended(&begun);
    assert!(judge.is_quiet(link(1, 2)));
    assert_eq!(begin(&mut judge, &ticket(link(1, 2), 1)), Ok(Turn::Now));
}

#[test]
fn numbers_rise_and_are_bounded() {
    let mut judge = judge(&[1]);
    assert_eq!(begin(&mut judge, &ticket(link(1, 1), 5)), Ok(Turn::Now));
    for late in [1, 4, 5] {
        assert_eq!(judge.received(&ticket(link(1, 1), late)), Err(Refusal::Rules));
    }
    for request in 6..5 + REQUESTS_MAX as u64 {
        judge.received(&ticket(link(1, 1), request)).unwrap();
    }
    assert_eq!(judge.received(&ticket(link(1, 1), 9999)), Err(Refusal::Rules));
}

#[test]
fn nothing_waiting_of_a_closed_connection_is_begun() {
    let mut judge = judge(&[1]);
    let (of_it, of_another) = (ticket(link(1, 1), 1), ticket(link(1, 1), 2));
    let of_another = Ticket { connection: 4, ..of_another };
    judge.received(&of_it).unwrap();
    judge.received(&of_another).unwrap();
    judge.closed(link(1, 1), 3).unwrap();
    assert_eq!(judge.begin(&of_it, Some(EPOCH)), Err(Refusal::NoConnection));
    assert_eq!(judge.begin(&of_another, Some(EPOCH)), Ok(Turn::Now));
}

#[test]
fn who_knows_of_a_departure_is_not_followed_by_the_departed() {
    let mut judge = judge(&[1, 2]);
    let (begun, waits) = (ticket(link(1, 1), 1), ticket(link(1, 1), 2));
    assert_eq!(begin(&mut judge, &begun), Ok(Turn::Now));
    judge.received(&waits).unwrap();
    let knows = Ticket { departures: 1, ..ticket(link(2, 1), 1) };
    assert_eq!(begin(&mut judge, &knows), Ok(Turn::ReadTable));
    judge.saw(&table(2, 1, &[2]));
    assert!(!judge.is_settled(1));
    assert_eq!(judge.begin(&knows, Some(EPOCH)), Ok(Turn::Wait));
    assert_eq!(judge.begin(&waits, Some(EPOCH)), Err(Refusal::NoLink));
    assert_eq!(judge.hello(link(1, 2)), Err(Refusal::NoLink));
    judge.ended(&begun);
    assert!(judge.is_settled(1) && !judge.is_settled(2));
    assert_eq!(judge.begin(&knows, Some(EPOCH)), Ok(Turn::Now));
}

/// Two reads of the table may return in the other order than they were made.
#[test]
fn an_older_table_does_not_make_links_forgotten() {
    let mut judge = judge(&[1]);
    judge.saw(&table(5, 0, &[1, 2]));
    judge.hello(link(2, 9)).unwrap();
    judge.saw(&table(4, 0, &[1]));
    judge.saw(&table(6, 0, &[1, 2]));
    assert_eq!(judge.hello(link(2, 8)), Err(Refusal::NoLink), "an older link is one");
    let older = ticket(link(2, 8), 1);
    assert_eq!(judge.received(&older), Err(Refusal::NoLink));
    assert_eq!(judge.hello(link(2, 10)), Ok(()));
    assert!(judge.is_settled(0));
}
