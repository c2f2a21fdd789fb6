"""Reads a stopped pool's drives by docs/format.md: from the superblocks to the blocks of a volume.

Every structure on the way is verified: checksums, who it belongs to, and that each unit
is listed in the summary of its segment. Nothing is written.
"""

import os
from collections import Counter

from . import disk_format as fmt
from .disk_format import Damaged, check
from .disk_redundancy import Drive as RedundantDrive, Layout
from .disk_replay import Log

MIB = 1 << 20
REGION_BYTES = 64 * MIB
BLOCK_BYTES = 4096
WORD = (1 << 64) - 1


class Drive:
    """One drive: parts of a disk, or files of a directory."""

    def __init__(self, path, superblock):
        self.path = path
        self.is_directory = os.path.isdir(path)
        self.superblock = superblock
        found = self.superblock
        check(found.shape == (2 if self.is_directory else 1), f"{path}: shape {found.shape}")
        self.lanes = len(range(found.index, found.lanes, found.drives))
        self.root_slot_bytes = fmt.round_up(found.root_bytes_max + 64, 4096)
        self.roots = found.lanes + 1 if found.index == 0 else 0
        self.meta_bytes = 4 * MIB + fmt.round_up(2 * self.roots * self.root_slot_bytes, MIB)

    def root(self, index):
        """The newer of both sides of a root."""
        sides, reasons = [], []
        for side in range(2):
            at = 4 * MIB + (side * self.roots + index) * self.root_slot_bytes
            try:
                sides.append(fmt.root_slot(self._meta(at, self.root_slot_bytes), index, self.superblock.pool))
            except Damaged as reason:
                reasons.append(str(reason))
        check(sides, f"root {index}: {', '.join(reasons)}")
        return max(sides)[1]

    def lane(self, index):
        """All bytes of a lane, by its number on this drive."""
        size = self.superblock.lane_bytes
        if self.is_directory:
            return read_at(os.path.join(self.path, f"lane-{index:04d}"), 0, size)
        return read_at(self.path, self.meta_bytes + index * size, size)

    def segment(self, slot, at, size):
        """Bytes of a slot, by its number on this drive."""
        at += slot * self.superblock.segment_bytes
        if self.is_directory:
            return read_at(os.path.join(self.path, "segments"), at, size)
        return read_at(self.path, fmt.round_up(self.meta_bytes + self.lanes * self.superblock.lane_bytes, 4 * MIB) + at, size)

    def _meta(self, at, size):
        return read_at(os.path.join(self.path, "meta") if self.is_directory else self.path, at, size)


def read_at(path, at, size):
    """Exactly so many bytes of a file."""
    with open(path, "rb") as file:
        file.seek(at)
        data = file.read(size)
    check(len(data) == size, f"{path}: {len(data)} bytes at {at}, not {size}")
    return data


def superblock_at(path):
    """What the superblocks of a drive agree on, or None of one that has left its pool."""
    meta = os.path.join(path, "meta") if os.path.isdir(path) else path
    copies = [bytes(read_at(meta, copy * MIB, 4096)) for copy in range(4)]
    try:
        return agreed(copies)
    except Damaged:
        if any(fmt.is_mark_of_left(data) for data in copies):
            return None
        raise


def agreed(copies):
    """Of several superblocks of which two agree, that of the highest revision."""
    counts, reasons = Counter(copies), []
    found = []
    for data, times in counts.items():
        try:
            if times >= 2:
                found.append(fmt.superblock(data))
        except Damaged as reason:
            reasons.append(str(reason))
    check(found, f"no two superblocks agree: {', '.join(reasons)}")
    return max(found, key=lambda value: value.revision)


class Concatenation:
    """Drives that are laid end to end."""

    def __init__(self, drives):
        self.drives = sorted(drives, key=lambda drive: drive.superblock.index)
        self.pool = self.drives[0].superblock.pool
        for index, drive in enumerate(self.drives):
            found = drive.superblock
            check(found.pool == self.pool, f"{drive.path}: another pool's")
            check((found.index, found.drives) == (index, len(drives)), f"{drive.path}: drive {found.index} of {found.drives}")

    def root(self, index):
        """A root of the pool or a shard."""
        return self.drives[0].root(index)

    def lane(self, shard):
        """All bytes of a shard's lane."""
        return self.drives[shard % len(self.drives)].lane(shard // len(self.drives))

    def begins_lane_at(self, _shard, _position):
        """Lanes without copies begin at 0."""
        return False

    def slot(self, slot, at, size):
        """Bytes of a slot of the pool."""
        number = slot
        for drive in self.drives:
            if number < drive.superblock.segments:
                return drive.segment(number, at, size)
            number -= drive.superblock.segments
        raise Damaged(f"slot {slot} is on none of the drives")


class Stripes:
    """Drives of which some may be lost."""

    def __init__(self, drives):
        self.layout = Layout(drives)
        self.pool = self.layout.pool
        self.root, self.lane, self.begins_lane_at = self.layout.root, self.layout.lane, self.layout.begins_lane_at

    def slot(self, slot, at, size):
        """Bytes of a slot of the pool."""
        data = self.layout.slot(slot)
        check(at + size <= len(data), f"slot {slot}: {size} bytes at {at} end behind its {len(data)}")
        return data[at:at + size]


def media(paths):
    """The drives at these paths, by the kind of pool that they are of. Of a redundant one some may be missing, or have left."""
    found = [(path, superblock_at(path)) for path in paths if os.path.exists(path)]
    found = [(path, superblock) for path, superblock in found if superblock]
    check(found, "no drive is there")
    if found[0][1].is_redundant:
        return Stripes([RedundantDrive(path, superblock) for path, superblock in found])
    check(len(found) == len(paths), "drives are missing")
    return Concatenation([Drive(path, superblock) for path, superblock in found])


class Pool:
    """All drives of a stopped pool."""

    def __init__(self, paths):
        self.media = media(paths)
        self.id = self.media.pool
        self.root = fmt.pool_root(self.media.root(0), self.id)
        self.segment_bytes = self.root.segment_bytes
        self.shards = [Shard(self, index) for index in range(max(self.root.placements))]

    def slot(self, slot, at, size):
        """Bytes of a slot of the pool."""
        check(at + size <= self.segment_bytes, f"slot {slot}: {size} bytes at {at} end behind it")
        return self.media.slot(slot, at, size)

    def lane(self, shard):
        """All bytes of a shard's lane."""
        return self.media.lane(shard)

    def begins_lane_at(self, shard, position):
        """Whether a copy of a shard's lane was begun where a frame at `position` goes."""
        return self.media.begins_lane_at(shard, position)

    def segments(self):
        """Slots and generations of all segments that are durable in full: of the roots, and of the chains up to their witnesses."""
        found = set()
        for shard in self.shards:
            found.update((entry.slot, entry.generation) for entry in shard.usage)
            found.update((place.slot, place.generation) for place in shard.root.usage + shard.root.deaths + shard.root.deltas)
            found.update(shard.log.durable)
        return found

    def volumes(self):
        """Records of all volumes and snapshots, by `namespace/name[@snapshot]`."""
        found = {}
        for shard in self.shards:
            for key, value in shard.live_keys():
                if key[:2] in (b"\1v", b"\1s"):
                    name = key[2:]
                    check(home(name, self.root.placements) == shard.index, f"{name.decode()} is not on its home shard")
                    found[name.decode()] = fmt.volume_record(name, value)
        return found

    def block(self, volume, block):
        """A block of a volume: its plain bytes, or None where there is a hole."""
        shard = self.shards[self.shard_of(volume, block)]
        content = shard.log.content(volume.stream, block)
        if content and content.payload:
            return content.payload
        kind, chunk_shard, chunk = content.slot if content else shard.root_slot(volume.stream, block)
        if kind in (fmt.HOLE, fmt.ZERO):
            return None if kind == fmt.HOLE else bytes(BLOCK_BYTES)
        check(kind == fmt.DATA, f"block {block} of {volume.name.decode()}: slot of kind {kind}")
        return self.shards[chunk_shard].data(chunk)

    def shard_of(self, volume, block):
        """Where a block's region is placed."""
        check(volume.placement < len(self.root.placements), f"{volume.name.decode()}: placement {volume.placement}")
        shards = self.root.placements[volume.placement]
        return placed(volume.seed, shards, block * BLOCK_BYTES // REGION_BYTES)

    def unapplied(self):
        """What the lanes and the chains hold that no checkpoint has, as text; empty after a clean stop."""
        logs = [(shard.index, shard.log) for shard in self.shards if shard.log.segments or shard.log.records]
        return [f"shard {index}: {log.segments} segments and {log.records} records of the lane" for index, log in logs]


def placed(seed, shards, region):
    """The shard of a region of 64 MiB: groups of as many regions as shards go round them, from a shard of the seed's choice."""
    group, within = divmod(region, shards)
    mixed = seed ^ group * 0x9E3779B97F4A7C15 & WORD
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & WORD
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & WORD
    return ((mixed ^ mixed >> 31) % shards + within) % shards


def home(name, placements):
    """The shard that has a volume's record, and those of its snapshots."""
    return fmt.xxh3(name.split(b"@")[0]) % placements[0]


class Shard:
    """One shard's trees as its root has them."""

    def __init__(self, pool, index):
        self.pool = pool
        self.index = index
        self.root = fmt.shard_root(pool.media.root(index + 1), pool.id, index)
        self._summaries = {}
        self._slots = {}
        self.pages = {}  # By name, and
        self.located = set()  # by location: of what was read so far.
        self.table = dict(self._table()) if self.root.table else {}
        self.streams = {int.from_bytes(key[1:], "big"): fmt.stream_record(value) for key, value in self.keys() if key[0] == 0}
        self.waiting = {(stream, block): chunk for stream, block, chunk in self._deltas()}
        self.usage = [entry for place in self.root.usage for entry in fmt.usage_entries(self.page_at(place, fmt.USAGE, 0).payload)]
        self.log = Log(self)

    def deaths(self):
        """Ids in death blobs."""
        for place in self.root.deaths:
            yield from fmt.deaths(self.page_at(place, fmt.DEATHS, 0).payload)

    def _deltas(self):
        for place in self.root.deltas:
            yield from fmt.deltas(self.page_at(place, fmt.DELTAS, 0).payload)

    def _table(self):
        for key, value in self._walk(fmt.TABLE, self.root.table, self.root.table_height):
            yield int.from_bytes(key, "big"), fmt.chunk_entry(value)

    def keys(self):
        """All keys and values of the key tree, in order."""
        return self._walk(fmt.KEYS, self.root.keys, self.root.keys_height)

    def live_keys(self):
        """Keys and values of the tree and of the log."""
        found = {**dict(self.keys()), **self.log.keys}
        return [(key, value) for key, value in found.items() if value is not None]

    def _walk(self, kind, pointer, height, bound=None):
        if height == 0:
            check(pointer is None, "a tree without levels has a root")
            return
        found = self.page(pointer, kind, height - 1)
        entries = fmt.tree_entries(found)
        check(bound is None or entries[0][0] >= bound or height > 1, "an entry below its page's lower bound")
        for index, (key, value) in enumerate(entries):
            if height == 1:
                yield key, value
            else:
                yield from self._walk(kind, fmt.pointer(value), height - 1, key if index else bound)

    def page(self, pointer, kind, level):
        """The page a pointer names."""
        check(pointer is not None, "a pointer to no page within a tree")
        if pointer.location:
            return self.page_at(pointer.location, kind, level)
        if pointer.chunk not in self.pages:
            chunk = self.chunk(pointer.chunk)
            self.pages[pointer.chunk] = self.page_at(chunk.location, kind, level, pointer.chunk)
        found = self.pages[pointer.chunk]
        check((found.kind, found.level) == (kind, level), f"page {pointer.chunk}: kind {found.kind} level {found.level}")
        return found

    def page_at(self, place, kind, level, name=0):
        """A page at a location."""
        if not name:
            self.located.add(place)
        found = fmt.page(self.unit(place), kind)
        check(found.level == level and found.name == name, f"page at {place}: level {found.level}, name {found.name}")
        return found

    def chunk(self, chunk):
        """A chunk's entry in the table."""
        check(chunk in self.table, f"shard {self.index}: chunk {chunk} is not in the chunk table")
        return self.table[chunk]

    def unit(self, place):
        """Stored bytes at a location, verified."""
        entry = self.summary(place.slot, place.generation).get(place.offset)
        check(entry and (entry.stored_len, entry.checksum) == (place.stored_len, place.checksum),
              f"slot {place.slot}: its summary has no such unit at {place.offset}")
        return self.stored(place)

    def stored(self, place):
        """Stored bytes at a location, by their checksum."""
        stored = self.pool.slot(place.slot, place.offset, place.stored_len)
        check(fmt.unit_checksum(stored) == place.checksum, f"slot {place.slot}: checksum of the unit at {place.offset}")
        return stored

    def summary(self, slot, generation):
        """Entries with units of a segment, by offset."""
        if (slot, generation) not in self._summaries:
            strip = fmt.strip_header(self.pool.slot(slot, 0, 4096), self.pool.id)
            check((strip.slot, strip.generation, strip.shard) == (slot, generation, self.index),
                  f"slot {slot}: slot {strip.slot} generation {strip.generation} of shard {strip.shard}, not {generation}")
            self._summaries[slot, generation] = {entry.offset: entry for entry in self.read_summary(strip) if entry.stored_len}
        return self._summaries[slot, generation]

    def read_summary(self, strip):
        """All entries of a segment."""
        data = self.pool.slot(strip.slot, strip.summary_offset, 64 * strip.summary_entries)
        check(fmt.xxh3(data) == strip.summary_checksum, f"slot {strip.slot}: checksum of the summary")
        check(strip.used_bytes == fmt.round_up(strip.summary_offset + len(data), 4096), f"slot {strip.slot}: used bytes")
        return fmt.summary(data)

    def root_slot(self, stream, block):
        """What the root's map of a stream says of a block: (kind, shard, chunk)."""
        if (stream, block) in self.waiting:
            return fmt.DATA, self.index, self.waiting[stream, block]
        record = self.streams.get(stream)
        if record is None or record.height == 0 or block >= 512 ** record.height:
            return fmt.HOLE, 0, 0
        pointer = record.root
        for level in reversed(range(record.height)):
            page = self.page(pointer, fmt.MAP, level)
            covered = 512 ** level
            check(page.position == block - block % (512 * covered), f"map page {page.name}: begins at block {page.position}")
            kind, shard, chunk = self.slots(page)[block // covered % 512]
            if kind != fmt.PAGE:
                check(kind != fmt.DATA or level == 0, f"map page {page.name}: data above the leaves")
                return kind, shard, chunk
            check(shard == self.index and level > 0, f"map page {page.name}: a page of shard {shard}")
            pointer = fmt.Pointer(chunk, None)
        raise Damaged(f"stream {stream} block {block}: a page below the leaves")

    def slots(self, page):
        """The slots of a map page."""
        if page.name not in self._slots:
            self._slots[page.name] = fmt.map_slots(page)
        return self._slots[page.name]

    def map_page(self, name, level):
        """A page of a map, by its name."""
        return self.page(fmt.Pointer(name, None), fmt.MAP, level)

    def data(self, chunk):
        """The plain bytes of a chunk of data."""
        found = self.chunk(chunk)
        return fmt.plain(self.unit(found.location), found.codec, found.plain_len)
