"""Redundant pools by section 15 of docs/format.md alone: decoders of their structures, the tables that count, slots put
together from any k strips, and a census of strips. Shares no code with Varve. Nothing is written.
"""

import functools
import os
import struct
from collections import namedtuple

from . import disk_format as fmt
from .disk_format import Damaged, check, number, reserved

UNIT = 64 << 10
SIDE = 4096
LABEL = 4096
ROWS = 14
NO_DRIVE = 255
LIVE, JOINING, LEAVING, FAILED, GONE = range(1, 6)
HAS_SEGMENTS, HAS_JOURNALS, HAS_ROOTS = 1, 2, 4
XOR, DOUBLE_PARITY, CAUCHY = 1, 2, 3
DRIVE_TABLE, JOURNAL, PAGE = 0x80000000, 0x81000000, 0x82000000
CACHED_SLOTS = 64

DriveTable = namedtuple("DriveTable", "epoch history drops_max segment_bytes zone_segments loss walked settled class_ lineage classes drives")
DriveRecord = namedtuple("DriveRecord", "number state roles former id units")
Copy = namedtuple("Copy", "drive kind is_current place since until")
Place = namedtuple("Place", "drive tenancy unit")
Set = namedtuple("Set", "class_ places")
Row = namedtuple("Row", "tenancy why sets")
Label = namedtuple("Label", "k m strip code drive slot place generation epoch tenancy used_bytes data_bytes sums")
Strip = namedtuple("Strip", "label data")
Contents = namedtuple("Contents", "data label strips places")


# Decoders


def sealed(data, magic, length_at=None):
    """What all structures of the section begin and end with."""
    name = magic.decode()
    check(data[:8] == magic and number(data, 8, 2) == 1, f"{name}: magic or version")
    check(number(data, len(data) - 8, 8) == fmt.xxh3(data[:-8]), f"{name}: checksum")
    check(length_at is None or number(data, length_at, 4) == len(data), f"{name}: length")


def drive_table(data, pool):
    """Drives, classes and the line of the table."""
    sealed(data, b"VARVDRVS", 12)
    for at, size in ((10, 2), (100, 4)):
        reserved(data, at, size, "drive table")
    check(data[87] < 8, "drive table: kinds of drives for journals")
    check(number(data, 32, 8) == 0, f"drive table: unknown incompatible features {number(data, 32, 8):#x}")
    check(data[40:56] == pool, "drive table: another pool's")
    lineages, classes, class_, drives, drops_max, _ = struct.unpack_from("<H5B", data, 80)
    segment_bytes, zone_segments, _, _, loss, walked, settled = struct.unpack_from("<4I3Q", data, 88)
    check(len(data) == 136 + 24 * lineages + 16 * classes + 128 * drives, "drive table: length")
    at = 128
    lineage = [(data[at + 24 * i:at + 24 * i + 16], number(data, at + 24 * i + 16, 8)) for i in range(lineages)]
    at += 24 * lineages
    shapes = {}
    for i in range(classes):
        reserved(data, at + 16 * i + 4, 12, "class")
        shapes[data[at + 16 * i]] = (data[at + 16 * i + 1], data[at + 16 * i + 2])
    at += 16 * classes
    records = [drive_record(data[at + 128 * i:at + 128 * (i + 1)]) for i in range(drives)]
    return DriveTable(number(data, 56, 8), data[64:80], drops_max, segment_bytes, zone_segments, loss, walked, settled, class_,
                      lineage, shapes, {record.number: record for record in records})


def drive_record(data):
    """One drive (128 B)."""
    for at, size in ((7, 1), (28, 4), (120, 8)):
        reserved(data, at, size, "drive record")
    check(LIVE <= data[1] <= GONE and data[2] <= 7, "drive record: state or roles")
    is_removed = data[4] & 2 != 0
    check(data[4] <= 3 and not (is_removed and data[1] in (LIVE, JOINING)), "drive record: flags")
    check(data[6] == 0 or is_removed and data[0] < data[6], "drive record: successor")
    return DriveRecord(data[0], data[1], data[2], None if data[5] == NO_DRIVE else data[5], data[8:24], number(data, 24, 4))


def journal_record(data, pool, shard):
    """Epoch, bytes of the ring, copies."""
    sealed(data, b"VARVJRNL", 12)
    reserved(data, 49, 7, "journal record")
    check(number(data, 10, 2) == shard and data[16:32] == pool, "journal record: another journal's")
    check(len(data) == 64 + 32 * data[48], "journal record: length")
    copies = []
    for at in range(56, len(data) - 8, 32):
        drive, kind, state, zero, place, since, until, rest = struct.unpack_from("<4BI3Q", data, at)
        check(state in (1, 2) and zero == rest == 0 and (state == 2 or until == 0), "journal record: copy")
        copies.append(Copy(drive, kind, state == 1, place, since, until if state == 2 else None))
    return number(data, 32, 8), number(data, 40, 8), copies


def layout_page(data, pool, page):
    """The rows of 14 zones, of which some have no places."""
    sealed(data, b"VARVZONE")
    for at, size in ((10, 2), (40, 16), (3864, 160)):
        reserved(data, at, size, "layout page")
    check(len(data) == 4032 and data[16:32] == pool, "layout page: length, or another pool's")
    check(struct.unpack_from("<I", data, 12) + struct.unpack_from("<II", data, 32) == (page, ROWS * page, ROWS), "layout page: another")
    return {ROWS * page + i: row(data[56 + 272 * i:56 + 272 * (i + 1)]) for i in range(ROWS)}


def row(data):
    """One row (272 B): where the strips of a zone are, and go."""
    kind, class_, to_class, why, tenancy, split = struct.unpack_from("<4BIH", data)
    reserved(data, 10, 6, "row")
    check(kind != 2 and split == 0, "row: slots of an earlier format")
    if kind == 0:
        check(not any(data[:4]) and not any(data[8:]), "row: places of a zone without any")
        return Row(tenancy, 0, ())
    sets = [Set(class_, places(data[16:144]))]
    if why:
        sets.append(Set(to_class, places(data[144:272])))
    else:
        reserved(data, 144, 128, "row")
    return Row(tenancy, why, tuple(sets))


def places(data):
    """The places of a set, by index."""
    found = []
    for at in range(0, 128, 8):
        drive, tenancy, unit = data[at], number(data, at + 1, 3), number(data, at + 4, 4)
        if drive == NO_DRIVE:
            reserved(data, at + 1, 7, "row")
            continue
        check(len(found) == at // 8, "row: a place behind the last one")
        found.append(Place(drive, tenancy, unit))
    return tuple(found)


def label(data, pool):
    """What stands before a strip (4096 B)."""
    sealed(data, b"VARVLABL")
    for at, size in ((15, 1), (68, 4), (200, 3888)):
        reserved(data, at, size, "label")
    check(data[16:32] == pool, "label: another pool's")
    k, m, strip, code, drive = data[10:15]
    check(code == (0 if k == 1 else min(m, CAUCHY)), "label: code")
    slot, place, generation, epoch, tenancy, used, own = struct.unpack_from("<IIQQIII", data, 32)
    sums = struct.unpack_from("<16Q", data, 72)
    check(not any(sums[k + m:]), "label: sums behind the last strip")
    return Label(k, m, strip, code, drive, slot, place, generation, epoch, tenancy, used, own, sums[:k + m])


# Codes


def product(a, b):
    """Of two elements of the field of 256 with the polynomial 0x11D."""
    found = 0
    while b:
        if b & 1:
            found ^= a
        a = a << 1 ^ (0x11D if a & 0x80 else 0)
        b >>= 1
    return found


@functools.cache
def inverse(a):
    """What gives 1 with `a`."""
    return next(b for b in range(1, 256) if product(a, b) == 1)


@functools.cache
def multiples(factor):
    """A table for `bytes.translate`."""
    return bytes(product(factor, value) for value in range(256))


@functools.cache
def coefficients(k, m):
    """The rows of all strips: each is the sum of the data strips with these factors."""
    rows = [[int(i == j) for j in range(k)] for i in range(k)]
    if k == 1:
        return rows + [[1]] * m
    if m <= 2:
        rows.append([1] * k)
        powers = [1]
        while len(powers) < k:
            powers.append(product(powers[-1], 2))
        return rows + [powers] * (m - 1)
    return rows + [[inverse(i ^ j) for j in range(k)] for i in range(k, k + m)]


def combine(factors, strips, size):
    """The sum of strips, each with its factor."""
    total = 0
    for factor, strip in zip(factors, strips):
        if factor:
            total ^= int.from_bytes(strip.ljust(size, b"\0").translate(multiples(factor)), "little")
    return total.to_bytes(size, "little")


def inverted(matrix):
    """The inverse of a matrix over the field."""
    size = len(matrix)
    rows = [list(line) + [int(i == j) for j in range(size)] for i, line in enumerate(matrix)]
    for at in range(size):
        pivot = next((i for i in range(at, size) if rows[i][at]), None)
        check(pivot is not None, "strips do not suffice")
        rows[at], rows[pivot] = rows[pivot], rows[at]
        scale = inverse(rows[at][at])
        rows[at] = [product(scale, value) for value in rows[at]]
        for i in range(size):
            factor = rows[i][at]
            if i != at and factor:
                rows[i] = [value ^ product(factor, other) for value, other in zip(rows[i], rows[at])]
    return [line[size:] for line in rows]


def data_strips(k, m, strips, size):
    """All strips of data, as long as the longest one, from any k strips by index."""
    chosen = sorted(strips)[:k]
    if chosen == list(range(k)):
        return [strips[i].ljust(size, b"\0") for i in range(k)]
    solution = inverted([coefficients(k, m)[i] for i in chosen])
    return [combine(line, [strips[i] for i in chosen], size) for line in solution]


# Drives and tables


class Drive:
    """One drive, by its superblock."""

    def __init__(self, path, superblock):
        self.path, self.superblock = path, superblock
        self.is_directory = os.path.isdir(path)
        check(superblock.shape == (2 if self.is_directory else 1), f"{path}: shape {superblock.shape}")
        self.tables = []
        for side in range(2):
            try:
                version, data = self._side(superblock.tables_offset + side * UNIT, UNIT, DRIVE_TABLE)
                if version:
                    self.tables.append(drive_table(data, superblock.pool))
            except Damaged:
                continue

    def journal(self, shard):
        """The newer side of a journal record: version and bytes."""
        return self._newer(self._table(0, self.superblock.lanes, shard), SIDE, JOURNAL + shard)

    def page(self, page):
        """The newer side of a layout page."""
        return self._newer(self._table(2 * SIDE * self.superblock.lanes, self.superblock.layout_pages, page), SIDE, PAGE + page)

    def root(self, index):
        """The newer side of a root of the pool or a shard."""
        size = fmt.round_up(self.superblock.root_bytes_max + 64, 4096)
        roots = self.superblock.lanes + 1
        sides = [self.superblock.roots_offset + (side * roots + index) * size for side in range(2)]
        return self._newer(sides, size, index)

    def read(self, at, size):
        """Bytes of its units."""
        if self.is_directory:
            return read_at(os.path.join(self.path, "segments"), at, size)
        return read_at(self.path, self.superblock.space_offset + at, size)

    def _table(self, behind, count, index):
        begins = self.superblock.tables_offset + 2 * UNIT + behind
        return [begins + (side * count + index) * SIDE for side in range(2)]

    def _newer(self, sides, size, which):
        found, reasons = [], []
        for at in sides:
            try:
                found.append(self._side(at, size, which))
            except Damaged as reason:
                reasons.append(str(reason))
        check(found, f"{self.path}: root {which:#x}: {', '.join(reasons)}")
        return max(found)

    def _side(self, at, size, which):
        meta = os.path.join(self.path, "meta") if self.is_directory else self.path
        return fmt.root_slot(read_at(meta, at, size), which, self.superblock.pool)


def read_at(path, at, size):
    """Exactly so many bytes of a file."""
    try:
        with open(path, "rb") as file:
            file.seek(at)
            data = file.read(size)
    except OSError as error:
        raise Damaged(f"{path}: {error}") from None
    check(len(data) == size, f"{path}: {len(data)} bytes at {at}, not {size}")
    return data


def follows(later, earlier):
    """Whether a table is newer than another one, and of the same line."""
    if later.history == earlier.history:
        return later.epoch > earlier.epoch
    return any(history == earlier.history and ended >= earlier.epoch for history, ended in later.lineage)


def newest_table(drives):
    """The table that counts, of all that drives have."""
    tables = [table for drive in drives for table in drive.tables]
    last = [table for table in tables if not any(follows(other, table) for other in tables)]
    check(last, "no drive has a drive table")
    check(all(table.history == last[0].history for table in last), "histories have split")
    present = {drive.superblock.drive_id: drive for drive in drives}

    def is_whole(table):
        holders = [record for record in table.drives.values() if record.state in (LIVE, LEAVING)]
        return all(table in present[record.id].tables for record in holders if record.id in present)
    return next((table for table in last if is_whole(table)), last[0])


class Layout:
    """The drives of a pool that count, and what their tables say."""

    def __init__(self, drives):
        first = drives[0].superblock
        for drive in drives:
            check(drive.superblock.pool == first.pool, f"{drive.path}: another pool's")
        self.pool = first.pool
        self.table = newest_table(drives)
        self.drives = {}
        for drive in drives:
            record = next((it for it in self.table.drives.values() if it.id == drive.superblock.drive_id), None)
            went_apart = any(held != self.table and not follows(self.table, held) for held in drive.tables)
            if record and record.state in (LIVE, LEAVING) and drive.tables and not went_apart:
                check(drive.superblock.index == record.number, f"{drive.path}: another number than in the table")
                self.drives[record.number] = drive
        self.missing = [it.number for it in self.table.drives.values() if it.state in (LIVE, LEAVING) and it.number not in self.drives]
        check(self.drives, "no drive counts")
        self.rows = {}
        for page in range(first.layout_pages):
            version, data = self._newest(lambda drive, page=page: drive.page(page))
            if version:
                self.rows.update(layout_page(data, self.pool, page))
        self.journals = [self._journal(shard) for shard in range(first.lanes)]
        self._slots, self._lanes = {}, {}

    def root(self, index):
        """The newest root of the pool or a shard, of all drives that have roots."""
        return self._newest(lambda drive: drive.root(index))[1]

    def lane(self, shard):
        """All bytes of a journal: of one copy, with the frames that others have and it has not."""
        _, lane_bytes, copies = self.journals[shard]
        if shard not in self._lanes:
            rings = [(copy, self.drives[copy.drive].read(copy.place * UNIT, lane_bytes)) for copy in copies if copy.drive in self.drives]
            check(rings, f"journal {shard}: no copy of it is there")
            found = {}
            for copy, ring in rings:
                for at, frame in frames(ring, self.pool, shard):
                    if copy.since <= frame.position and (copy.until is None or frame.position < copy.until):
                        found[frame.mount, frame.seq] = at, ring[at:at + frame.bytes]
            lane = bytearray(next((ring for copy, ring in rings if copy.is_current), rings[0][1]))
            for _, (at, data) in sorted(found.items()):  # Newer ones lie over what they replaced.
                lane[at:at + len(data)] = data
            self._lanes[shard] = bytes(lane)
        return self._lanes[shard]

    def begins_lane_at(self, shard, position):
        """Whether a copy of a journal that is there was begun where a frame at `position` goes."""
        _, lane_bytes, copies = self.journals[shard]
        next_lap = (position // lane_bytes + 1) * lane_bytes
        current = [copy for copy in copies if copy.is_current and copy.drive in self.drives]
        return any(copy.since > 0 and copy.since in (position, next_lap) for copy in current)

    def slot(self, slot):
        """What a slot holds that counts: the put with enough strips, of the newest epoch, and the highest generation."""
        if slot not in self._slots:
            if len(self._slots) >= CACHED_SLOTS:
                self._slots.pop(next(iter(self._slots)))
            self._slots[slot] = self._decode(slot)
        return self._slots[slot]

    def strips(self, slot):
        """All strips of a slot that are right, by set and index: (set, index, strip)."""
        zone, within = divmod(slot, self.table.zone_segments)
        found = []
        for set_, (_, group) in enumerate(self._sets(zone)):
            for index, place in enumerate(group.places):
                strip = self._strip(slot, within, group, index, place)
                if strip:
                    found.append((set_, index, strip))
        return found

    def places(self, slot):
        """Where the strips of a slot are, with labels first: (place, position among the units of the drive, bytes)."""
        zone, within = divmod(slot, self.table.zone_segments)
        for _, index, strip in self.strips(slot):
            for (k, _), group in self._sets(zone):
                place = group.places[index] if index < len(group.places) else None
                if place and (place.drive, place.unit) == (strip.label.drive, strip.label.place):
                    yield place, place.unit * UNIT + within * (LABEL + self.strip_bytes(k)), len(strip.data)

    def census(self, slot, generation):
        """How many strips of a generation of a slot are right in the better set of its row, and how many there must be."""
        counts = []
        strips = [(set_, strip) for set_, _, strip in self.strips(slot) if strip.label.generation == generation]
        for set_, (shape, _) in enumerate(self._sets(slot // self.table.zone_segments)):
            puts = {}
            for of, strip in strips:
                if of == set_:
                    puts.setdefault((strip.label.used_bytes, strip.label.sums), []).append(strip)
            counts.append((max(map(len, puts.values()), default=0), sum(shape)))
        check(counts, f"slot {slot}: its zone has no row")
        return max(counts, key=lambda count: count[0] - count[1])

    def _sets(self, zone):
        groups = self.rows[zone].sets if zone in self.rows else ()
        return [(self.table.classes[group.class_], group) for group in groups]

    def strip_bytes(self, k):
        """Room of a strip."""
        return fmt.round_up(-(-self.table.segment_bytes // k), LABEL)

    def _strip(self, slot, within, group, index, place):
        """A strip, if label and bytes are those that belong there."""
        drive = self.drives.get(place.drive)
        k, m = self.table.classes[group.class_]
        if drive is None:
            return None
        size = self.strip_bytes(k)
        at = place.unit * UNIT + within * (LABEL + size)
        try:
            found = label(drive.read(at, LABEL), self.pool)
            names = {place.drive, self.table.drives[place.drive].former}
            check((found.k, found.m, found.strip, found.slot) == (k, m, index, slot), "label: of another strip")
            check(found.drive in names and (found.place, found.tenancy) == (place.unit, place.tenancy), "label: of another place")
            begins = index * size if index < k else 0
            check(found.data_bytes == min(max(found.used_bytes - begins, 0), size), "label: bytes of the strip")
            data = drive.read(at + LABEL, found.data_bytes)
            check(fmt.payload_checksum(data) == found.sums[index], "strip: checksum")
        except Damaged:
            return None
        return Strip(found, data)

    def _decode(self, slot):
        puts = {}
        for _, index, strip in self.strips(slot):
            it = strip.label
            puts.setdefault((it.k, it.m, it.generation, it.used_bytes, it.sums), {})[index] = strip
        enough = [strips for (k, *_), strips in puts.items() if len(strips) >= k]
        check(enough, f"slot {slot}: no put has enough strips")
        strips = max(enough, key=lambda strips: (max(it.label.epoch for it in strips.values()), next(iter(strips.values())).label.generation))
        first = next(iter(strips.values())).label
        size = self.strip_bytes(first.k)
        longest = min(size, first.used_bytes)
        data = data_strips(first.k, first.m, {index: strip.data for index, strip in strips.items()}, longest)
        for index, strip in enumerate(data):
            own = strip[:min(max(first.used_bytes - index * size, 0), size)]
            check(fmt.payload_checksum(own) == first.sums[index], f"slot {slot}: what strips give is not what labels say")
        for index in range(first.k, first.k + first.m):
            parity = combine(coefficients(first.k, first.m)[index], data, longest)
            check(fmt.payload_checksum(parity) == first.sums[index], f"slot {slot}: parity is not what follows from the data")
        return b"".join(strip.ljust(size, b"\0") for strip in data)[:first.used_bytes]

    def _newest(self, read):
        found, reasons = [], []
        for drive in self.drives.values():
            if self.table.drives[drive.superblock.index].roles & HAS_ROOTS:
                try:
                    found.append(read(drive))
                except Damaged as reason:
                    reasons.append(str(reason))
        check(found, f"no drive has it: {', '.join(reasons)}")
        return max(found)

    def _journal(self, shard):
        version, data = self._newest(lambda drive: drive.journal(shard))
        check(version, f"journal {shard} has no record")
        return journal_record(data, self.pool, shard)


def frame_at(ring, at, pool, shard):
    """The frame that stands there, if it is sound and at its place in the ring."""
    if ring[at:at + 8] != b"VARVFRAM":
        return None
    try:
        found = fmt.frame(bytes(ring[at:at + number(ring, at + 16, 4)]), None, pool, shard)
    except Damaged:
        return None
    return found if found.position % len(ring) == at else None


def frames(ring, pool, shard):
    """All frames of a ring with their offsets."""
    for at in range(0, len(ring), 4096):
        found = frame_at(ring, at, pool, shard)
        if found:
            yield at, found
