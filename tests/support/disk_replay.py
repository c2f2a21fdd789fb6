"""What a shard's log holds that its root does not: the data chain, the moves of the reclaimed chain, and the lane.

Section 8 of docs/format.md, as far as a reader needs it: which block and key holds what.
Space, deaths and folds are a writer's business.
"""

import bisect
from collections import defaultdict, namedtuple

from . import disk_format as fmt
from .disk_format import Damaged, check

WRITE, TRIM, ZEROING, KEY_PUT, KEY_DELETE, STREAM_DROP, CUT, GRANT = range(1, 9)
BLOCK_512 = 8
IN_FLIGHT = 4

# A slot of the map, or bytes that are in the lane only.
Content = namedtuple("Content", "slot payload")
Strip = namedtuple("Strip", "header entries")


class Log:
    """Changes behind a root, in the order in which they count."""

    def __init__(self, shard):
        self.shard = shard
        self.segments = 0
        self.records = 0
        self.keys = {}
        self.durable = []  # Slots and generations of segments that a witness calls durable in full.
        self._blocks = defaultdict(list)  # (stream, block): [(number, content)]
        self._ranges = defaultdict(list)  # stream: [(number, first block, blocks, content)]
        self._cuts = {}  # copy: (number, source)
        self._number = 0
        self._applied_wseq = shard.root.applied_wseq
        self._replay()

    def _replay(self):
        root = self.shard.root
        data = list(self._chain(fmt.DATA_SEGMENT, root.data_chain))
        reclaimed = list(self._chain(fmt.RECLAIMED_SEGMENT, root.reclaim_chain))
        highest_seq, witnesses = self._census()
        for head, chain, witness in ((root.data_chain, data, witnesses[0]), (root.reclaim_chain, reclaimed, witnesses[1])):
            witness = max([witness] + [strip.header.witness for strip in chain])
            check(head.seq + len(chain) >= witness, f"shard {self.shard.index}: a chain ends at {head.seq + len(chain)}, below {witness}")
            self.durable += [(strip.header.slot, strip.header.generation) for strip in chain if strip.header.chain_seq <= witness]
        for strip in data:
            for entry in strip.entries:
                if entry.kind == 1:
                    self.shard.table[entry.chunk] = chunk_of(entry, strip.header)
        for strip in reclaimed:
            for entry in strip.entries:
                if entry.kind == 7:
                    self._move(entry, strip.header)
        for strip in data:
            for entry in strip.entries:
                self._apply_entry(entry, strip.header)
        self.segments = len(data) + len(reclaimed)
        point, mount = (data[-1].header.lane, data[-1].header.lane_mount) if data else (root.lane, root.lane_mount)
        seed = fmt.chain_seed(self.shard.pool.id, self.shard.index, mount)
        is_there = highest_seq >= point.frame_seq - 2 or self.shard.pool.begins_lane_at(self.shard.index, point.position)
        check(point.chain == seed or is_there, f"shard {self.shard.index}: the lane was lost")
        end_seq = point.frame_seq
        for frame in self._frames(point, mount):
            end_seq = frame.seq + 1
            for record in frame.records:
                if record.wseq >= self._applied_wseq:
                    self.records += record.wseq > self._applied_wseq
                    self._apply_record(record)
        check(highest_seq < end_seq + IN_FLIGHT, f"shard {self.shard.index}: frame {end_seq} is damaged, {highest_seq} is there")

    def content(self, stream, block, before=None):
        """What a block holds by the log; None when the log does not say."""
        before = self._number + 1 if before is None else before
        changes = self._blocks.get((stream, block), [])
        at = bisect.bisect_left(changes, (before,))
        best = changes[at - 1] if at else (0, None)
        for number, first, blocks, content in self._ranges.get(stream, []):
            if best[0] < number < before and first <= block < first + blocks:
                best = number, content
        if best[1] is not None:
            return best[1]
        number, source = self._cuts.get(stream, (0, None))
        if source is None or number >= before:
            return None
        return self.content(source, block, number) or Content(self.shard.root_slot(source, block), None)

    def _chain(self, kind, head):
        """Segments of a chain behind a head, each verified in full."""
        seq, checksum, slot = head
        while True:
            try:
                header = fmt.strip_header(self.shard.pool.slot(slot, 0, 4096), self.shard.pool.id)
                if (header.kind, header.shard, header.slot, header.chain_seq, header.previous_checksum) != (
                        kind, self.shard.index, slot, seq + 1, checksum):
                    return
                strip = Strip(header, self.shard.read_summary(header))
                for entry in strip.entries:
                    if entry.stored_len:
                        self.shard.stored(place_of(entry, header))
            except Damaged:
                return
            yield strip
            seq, checksum, slot = header.chain_seq, header.header_checksum, header.next_slot

    def _census(self):
        """The highest frame number and the highest witnesses of the frames of the root's lane mount, on whatever lap."""
        lane, highest, witnesses = self.shard.pool.lane(self.shard.index), 0, (0, 0)
        for at in range(0, len(lane), 4096):
            frame = self._frame(lane, at, None)
            if frame and frame.mount == self.shard.root.lane_mount and frame.position % len(lane) == at:
                highest = max(highest, frame.seq)
                witnesses = max(witnesses[0], frame.witnesses[0]), max(witnesses[1], frame.witnesses[1])
        return highest, witnesses

    def _frames(self, point, mount):
        """The frames of the lane from a lane point on, as replay takes them."""
        lane = self.shard.pool.lane(self.shard.index)
        position, seq, chain = point
        while True:
            at = position % len(lane)
            found = self._frame(lane, at, position)
            if found is None and at:
                position += len(lane) - at  # A frame that does not fit before the end begins at the next lap.
                found = self._frame(lane, 0, position)
            if found is None or (found.mount, found.seq, found.previous) != (mount, seq, chain):
                return
            yield found
            position, seq, chain = position + found.bytes, seq + 1, found.chain

    def _frame(self, lane, at, position):
        """The frame there, if it is sound, and of this position unless that is None."""
        try:
            fmt.check(lane[at:at + 8] == b"VARVFRAM", "no frame")
            return fmt.frame(lane[at:at + fmt.number(lane, at + 16, 4)], position, self.shard.pool.id, self.shard.index)
        except Damaged:
            return None

    def _move(self, entry, header):
        """A move counts while the chunk table holds the full old place, which the entry's other fields name."""
        held = self.shard.table.get(entry.chunk)
        if held and (held.location.generation, held.location.offset, held.location.slot) == (
                entry.stream, 512 * entry.block, entry.cut):
            self.shard.table[entry.chunk] = held._replace(location=place_of(entry, header))

    def _apply_entry(self, entry, header):
        """An entry of a data segment."""
        if entry.kind in (1, 13):
            self._put(entry.stream, entry.block, Content((fmt.DATA, self.shard.index, entry.chunk), None))
        elif entry.kind == 16:
            self._put(entry.stream, entry.block, Content((fmt.DATA, entry.cut, entry.chunk), None))
        elif entry.kind in (2, 3):
            self._put_range(entry.stream, entry.block, entry.chunk, Content((entry.kind - 2, 0, 0), None))
        elif entry.kind in (4, 5):
            self._put_key(self.shard.stored(place_of(entry, header)), entry.kind == 4)
        elif entry.kind == 6:
            self._drop(entry.stream)
        elif entry.kind == 12:
            self._cut(entry.stream, entry.block)
        if not entry.flags & 1:
            self._applied_wseq = max(self._applied_wseq, entry.wseq)

    def _apply_record(self, record):
        """A record of the lane."""
        check(WRITE <= record.kind <= GRANT, f"record of kind {record.kind}")
        first, blocks = record.offset // BLOCK_512, record.len // BLOCK_512
        if record.kind == WRITE:
            check(record.offset % BLOCK_512 == record.len % BLOCK_512 == 0, "a record that is not of whole blocks")
            for index in range(blocks):
                payload = record.payload[4096 * index:4096 * (index + 1)]
                self._put(record.stream, first + index, Content(None, payload))
        elif record.kind in (TRIM, ZEROING):
            self._put_range(record.stream, first, blocks, Content((record.kind - TRIM, 0, 0), None))
        elif record.kind in (KEY_PUT, KEY_DELETE):
            self._put_key(record.payload, record.kind == KEY_PUT)
        elif record.kind == STREAM_DROP:
            self._drop(record.stream)
        elif record.kind == CUT:
            self._cut(record.stream, fmt.number(record.payload, 0, 8))

    def _next(self):
        self._number += 1
        return self._number

    def _put(self, stream, block, content):
        self._blocks[stream, block].append((self._next(), content))

    def _put_range(self, stream, first, blocks, content):
        self._ranges[stream].append((self._next(), first, blocks, content))

    def _put_key(self, payload, is_put):
        key_len = fmt.number(payload, 0, 2)
        self.keys[payload[2:2 + key_len]] = payload[2 + key_len:] if is_put else None

    def _drop(self, stream):
        self._put_range(stream, 0, 1 << 48, Content((fmt.HOLE, 0, 0), None))

    def _cut(self, source, copy):
        if copy not in self.shard.streams:
            self._cuts.setdefault(copy, (self._next(), source))


def place_of(entry, header):
    """Where an entry's unit lies."""
    return fmt.Location(header.slot, header.generation, entry.offset, entry.stored_len, entry.checksum)


def chunk_of(entry, header):
    """The chunk table's value for a data entry."""
    return fmt.Chunk(place_of(entry, header), entry.codec, False, entry.plain_len)
