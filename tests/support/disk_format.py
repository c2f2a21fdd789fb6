"""Decoders of the structures of docs/format.md: bytes in, values out, no I/O.

Written from that document alone, so that what it says suffices to read a pool. Each
decoder verifies magic, version, reserved bytes and checksum, and raises `Damaged`.
"""

import struct
from collections import namedtuple

import lz4.block
import xxhash
import zstandard

PIECE = 4096
EMPTY = 0xFFFF
HOLE, ZERO, DATA, PAGE = range(4)
MAP, KEYS, TABLE, USAGE, DEATHS, DELTAS = range(1, 7)
METADATA_SEGMENT, DATA_SEGMENT, RECLAIMED_SEGMENT = 1, 2, 3
RAW, LZ4, ZSTD = range(3)
FIRST_PAGE_ID = 1 << 47

Location = namedtuple("Location", "slot generation offset stored_len checksum")
Chunk = namedtuple("Chunk", "location codec shared plain_len")
Pointer = namedtuple("Pointer", "chunk location")
LanePoint = namedtuple("LanePoint", "position frame_seq chain")
ChainHead = namedtuple("ChainHead", "seq checksum next_slot")
Entry = namedtuple("Entry", "kind codec flags chunk stream block wseq cut offset plain_len stored_len checksum fingerprint")
Page = namedtuple("Page", "kind encoding level slot_width name stream position payload")
Usage = namedtuple("Usage", "slot generation sealed_at live_bytes has_pages")
Stream = namedtuple("Stream", "height block_bytes page_ceiling chunk_ceiling root")
Volume = namedtuple("Volume", "name placement stream size_bytes seed")
Record = namedtuple("Record", "kind stream wseq offset len payload")


class Damaged(Exception):
    """Bytes that are not what docs/format.md says."""


def check(condition, message):
    """Raises `Damaged` unless `condition` holds."""
    if not condition:
        raise Damaged(message)


def xxh3(data, seed=0):
    """The checksum of everything."""
    return xxhash.xxh3_64_intdigest(data, seed)


def payload_checksum(data):
    """The fold over pieces of 4096 bytes; 0 of nothing."""
    if not data:
        return 0
    folded = xxh3(data[:PIECE])
    for at in range(PIECE, len(data), PIECE):
        folded = xxh3(struct.pack("<Q", xxh3(data[at:at + PIECE])), folded)
    return folded


def unit_checksum(data):
    """The low half of the payload checksum."""
    return payload_checksum(data) & 0xFFFFFFFF


def number(data, at, size):
    """A little-endian number; `Damaged` when the bytes are not there."""
    check(at + size <= len(data), f"{len(data)} bytes end within a number at {at}")
    return int.from_bytes(data[at:at + size], "little")


def reserved(data, at, size, what):
    """Reserved bytes are zero."""
    check(not data[at:at + size].strip(b"\0"), f"{what}: reserved bytes at {at} are not zero")


def round_up(value, unit):
    """The next multiple of `unit`."""
    return -(-value // unit) * unit


# Drives


def superblock(data):
    """One copy (4096 B)."""
    check(data[:8] == b"VARVESUP", "superblock: magic")
    check(struct.unpack_from("<HH", data, 8) == (1, 4096), "superblock: version or size")
    flags = number(data, 32, 8)
    check(flags & ~1 == 0, f"superblock: unknown incompatible features {flags:#x}")
    for at, size in ((12, 4), (78, 2), (101, 3), (152, 3936)) if flags else ((12, 4), (78, 2), (101, 3987)):
        reserved(data, at, size, "superblock")
    check(number(data, 4088, 8) == xxh3(data[:4088]), "superblock: checksum")
    names = ("revision pool created index drives lanes lane_bytes segment_bytes segments root_bytes_max shape"
             " is_redundant drive_id tables_offset roots_offset space_offset units layout_pages")
    values = (number(data, 40, 8), data[48:64], *struct.unpack_from("<QHHH", data, 64), *struct.unpack_from("<QIIIB", data, 80))
    found = namedtuple("Superblock", names)(*values, flags == 1, data[104:120], *struct.unpack_from("<QQQII", data, 120))
    check(not found.is_redundant or (found.drives, found.segments) == (0, 0) and found.index < 255, "superblock: of a redundant drive")
    return found


def is_mark_of_left(data):
    """Whether a mark is where a superblock was, of a drive that has left a pool with redundancy."""
    if data[:8] != b"VARVENEW":
        return False
    check(number(data, 8, 2) == 1 and data[10] < 2, "mark: version or kind")
    reserved(data, 11, 5, "mark")
    check(number(data, 32, 8) == xxh3(data[:32]), "mark: checksum")
    return data[10] == 1


def root_slot(data, root, pool):
    """One side of a root: version and bytes."""
    check(data[:8] == b"VARVROOT" and number(data, 8, 2) == 1, "root slot: magic or version")
    for at, size in ((10, 2), (44, 4), (56, 8)):
        reserved(data, at, size, "root slot")
    length = number(data, 40, 4)
    check(number(data, 12, 4) == root and data[24:40] == pool, "root slot: another root's, or another pool's")
    check(64 + length <= len(data), "root slot: length")
    body = data[64:64 + length]
    check(number(data, 48, 8) == xxh3(body, xxh3(data[:48])), "root slot: checksum")
    reserved(data, 64 + length, round_up(64 + length, 4096) - 64 - length, "root slot")
    return number(data, 16, 8), body


# Roots


def begin_root(data, magic, pool, incompat):
    """What both roots begin and end with."""
    check(data[:8] == magic and number(data, 8, 2) == 1, f"{magic.decode()}: magic or version")
    reserved(data, 10, 2, magic.decode())
    check(number(data, 12, 4) == len(data), f"{magic.decode()}: length")
    check(number(data, len(data) - 8, 8) == xxh3(data[:-8]), f"{magic.decode()}: checksum")
    check(data[40:56] == pool, f"{magic.decode()}: another pool's")
    flags = number(data, 32, 8)
    check(flags & ~incompat == 0, f"{magic.decode()}: unknown incompatible features {flags:#x}")
    return flags


def pool_root(data, pool):
    """Placements and zones."""
    begin_root(data, b"VARVPOOL", pool, 1)
    reserved(data, 88, 40, "pool root")
    segment_bytes, zone_segments, next_stream, placements, zones = struct.unpack_from("<IIQII", data, 64)
    check(len(data) == 136 + 2 * (placements + zones), "pool root: length")
    numbers = struct.unpack_from(f"<{placements + zones}H", data, 128)
    names = "segment_bytes zone_segments next_stream placements zone_owners"
    return namedtuple("PoolRoot", names)(segment_bytes, zone_segments, next_stream, numbers[:placements], numbers[placements:])


def shard_root(data, pool, shard):
    """Where a shard's trees are."""
    flags = begin_root(data, b"VARVSHRD", pool, 3)
    check(number(data, 56, 2) == shard, "shard root: another shard's")
    for at, size in ((58, 6), (172, 4), (196, 4), (250, 2)):
        reserved(data, at, size, "shard root")
    deaths, usage, deltas, copies = (number(data, at, 4) for at in (252, 260, 288, 292))
    check(len(data) == 304 + 20 * (usage + deaths + deltas) + 8 * copies, "shard root: length")
    check(copies == 0 or flags & 2, "shard root: copies without their flag")
    blobs = [location(data[296 + 20 * i:316 + 20 * i]) for i in range(usage + deaths + deltas)]
    at = 296 + 20 * len(blobs)
    names = ("mount checkpoint_seq applied_wseq next_wseq next_chunk next_page next_generation lane lane_mount data_chain reclaim_chain"
             " table keys table_height keys_height data_chunks data_bytes delta_limit usage deaths deltas copies crosses_shards")
    return namedtuple("ShardRoot", names)(
        *struct.unpack_from("<7Q", data, 64), LanePoint(*struct.unpack_from("<3Q", data, 120)), number(data, 144, 8),
        ChainHead(*struct.unpack_from("<QQI", data, 152)), ChainHead(*struct.unpack_from("<QQI", data, 176)),
        pointer(data[200:224]), pointer(data[224:248]), data[248], data[249], *struct.unpack_from("<3Q", data, 264),
        blobs[:usage], blobs[usage:usage + deaths], blobs[usage + deaths:],
        [struct.unpack_from("<II", data, at + 8 * i) for i in range(copies)], bool(flags & 1))


# Segments


def strip_header(data, pool):
    """The first 4096 bytes of a slot."""
    check(data[:8] == b"VARVSTRP" and number(data, 8, 2) == 1, "strip header: magic or version")
    for at, size in ((86, 2), (88, 8), (152, 8), (168, 3920)):
        reserved(data, at, size, "strip header")
    check(number(data, 4088, 8) == xxh3(data[:4088]), "strip header: checksum")
    check(data[16:32] == pool, "strip header: another pool's")
    check(tuple(data[11:14]) == (1, 0, 0) and number(data, 84, 2) == 64, "strip header: strips, or bytes of an entry")
    names = ("kind shard slot next_slot generation mount chain_seq previous_checksum used_bytes summary_offset summary_entries"
             " wseq_first wseq_last lane lane_mount witness summary_checksum header_checksum")
    return namedtuple("Strip", names)(
        data[10], number(data, 14, 2), *struct.unpack_from("<IIQQQQIII", data, 32), *struct.unpack_from("<QQ", data, 96),
        LanePoint(*struct.unpack_from("<3Q", data, 112)), *struct.unpack_from("<QQ", data, 136), number(data, 160, 8),
        number(data, 4088, 8))


def summary(data):
    """The entries of a summary."""
    return [summary_entry(data[at:at + 64]) for at in range(0, len(data), 64)]


def summary_entry(data):
    """One entry (64 B)."""
    check(1 <= data[0] <= 18, f"summary entry: unknown kind {data[0]}")
    check(data[1] <= ZSTD and data[2] <= 1, "summary entry: codec or flags")
    reserved(data, 44, 4, "summary entry")
    return Entry(data[0], data[1], data[2], *(number(data, at, 6) for at in (4, 10, 16, 22)), number(data, 28, 4),
                 512 * number(data, 32, 2), 512 * number(data, 34, 2), number(data, 36, 4), number(data, 40, 4), data[48:64])


# Trees


def location(data):
    """Where a unit lies (20 B)."""
    found = Location(number(data, 0, 4), number(data, 4, 6), 512 * number(data, 10, 2), number(data, 12, 4), number(data, 16, 4))
    check(found.stored_len > 0, "location: no bytes")
    return found


def pointer(data):
    """A page pointer (24 B): None, or a chunk's id, or a location."""
    check(data[0] <= 2 and len(data) == 24, f"page pointer: unknown tag {data[0]}")
    reserved(data, 1, 3, "page pointer")
    if data[0] == 2:
        return Pointer(None, location(data[4:]))
    reserved(data, 10 if data[0] else 4, 14 if data[0] else 20, "page pointer")
    return Pointer(number(data, 4, 6), None) if data[0] else None


def chunk_entry(data):
    """A value of the chunk table (23 B)."""
    check(len(data) == 23 and data[15] <= ZSTD and data[16] <= 1, "chunk entry: codec or flags")
    place = Location(number(data, 0, 4), number(data, 4, 6), 512 * number(data, 10, 2), number(data, 12, 3), number(data, 19, 4))
    check(place.stored_len > 0, "chunk entry: no bytes")
    return Chunk(place, data[15], bool(data[16]), 512 * number(data, 17, 2))


def page(data, kind):
    """Header and payload of a stored page."""
    check(data[:4] == b"VARP", "page: magic")
    check(data[4] == kind, f"page: kind {data[4]}, not {kind}")
    reserved(data, 36, 4, "page")
    payload = data[48:]
    check(number(data, 32, 4) == len(payload), "page: length")
    check(number(data, 40, 8) == xxh3(payload, xxh3(data[:40])), "page: checksum")
    return Page(*data[4:8], *struct.unpack_from("<3Q", data, 8), payload)


def tree_entries(page_):
    """Keys and values of a page of the key tree or the chunk table, in order."""
    data = page_.payload
    if page_.kind == KEYS:
        check(page_.encoding == 2, f"key page: encoding {page_.encoding}")
        entries = slotted(data)
    elif page_.encoding == 3:
        entries = columns(data)
    else:
        check(page_.kind == TABLE and page_.encoding == 1, f"table page: encoding {page_.encoding}")
        key_len, value_len, count = data[0], data[1], number(data, 2, 2)
        size = key_len + value_len
        check(len(data) == 4 + size * count, "table page: length")
        entries = [(data[at:at + key_len], data[at + key_len:at + size]) for at in range(4, len(data), size)]
    check(entries and all(a[0] < b[0] for a, b in zip(entries, entries[1:])), "tree page: no entries, or not in order")
    return entries


def slotted(data):
    """Entries with lengths of their own."""
    entries, at = [], 2
    for _ in range(number(data, 0, 2)):
        key_len, value_len = number(data, at, 2), number(data, at + 2, 2)
        value_at = at + 4 + key_len
        at = value_at + value_len
        check(at <= len(data), "key page: an entry ends behind the page")
        entries.append((data[value_at - key_len:value_at], data[value_at:at]))
    check(at == len(data), "key page: bytes behind the last entry")
    return entries


def columns(data):
    """Entries of one size, stored byte by byte."""
    key_len, value_len, count = data[0], data[1], number(data, 2, 2)
    size = key_len + value_len
    bits = number(data, 4, round_up(size, 8) // 8)
    check(bits >> size == 0, "table page: bits behind the last column")
    at, found = 4 + round_up(size, 8) // 8, []
    for column in range(size):
        same = bits >> column & 1
        taken = data[at:at + (1 if same else count)]
        at += len(taken)
        found.append(taken * count if same else taken)
        check(len(found[-1]) == count, "table page: a column is short")
    check(at == len(data), "table page: bytes behind the last column")
    rows = [bytes(row) for row in zip(*found)]
    return [(row[:key_len], row[key_len:]) for row in rows]


def map_slots(page_):
    """The 512 slots of a map page: (kind, shard, chunk)."""
    check(page_.slot_width == 8, "map page: width of a slot")
    data, found = page_.payload, []
    if page_.encoding == 2:
        check(len(data) == 4096, "map page: length")
        return [slot_of(number(data, at, 8)) for at in range(0, 4096, 8)]
    check(page_.encoding == 1, f"map page: encoding {page_.encoding}")
    at = 0
    while at < len(data):
        piece, count = data[at], number(data, at + 1, 2)
        at += 3
        if piece in (1, 2):
            found += [(piece - 1, 0, 0)] * count
        elif piece == 3:
            kind, shard, first = slot_of(number(data, at, 8))
            found += [(kind, shard, first + i) for i in range(count)]
            at += 8
        else:
            check(piece == 4, f"map page: unknown piece {piece}")
            top, base, width = number(data, at, 2), number(data, at + 2, 6), number(data, at + 8, 1)
            at += 9
            found += [slot_of(top << 48 | base + number(data, at + i * width, width)) for i in range(count)]
            at += count * width
        check(count > 0 and at <= len(data) and len(found) <= 512, "map page: a piece is empty or too long")
    return found + [(HOLE, 0, 0)] * (512 - len(found))


def slot_of(value):
    """A map slot (8 B)."""
    found = value >> 60, value >> 48 & 0xFFF, value & (1 << 48) - 1
    check(found[0] <= PAGE and (found[0] >= DATA or value & (1 << 60) - 1 == 0), "map slot: kind")
    check(found[0] < DATA or found[2] > 0, "map slot: no chunk")
    return found


def usage_entries(payload):
    """What a usage blob holds."""
    check(len(payload) % 24 == 0, "usage blob: length")
    found = []
    for at in range(0, len(payload), 24):
        reserved(payload, at + 21, 3, "usage entry")
        found.append(Usage(number(payload, at, 4), number(payload, at + 4, 6), number(payload, at + 10, 6),
                           number(payload, at + 16, 4), bool(payload[at + 20] & 1)))
    return found


def varints(payload):
    """Numbers of seven bits a byte, the lowest first."""
    value = shift = 0
    for byte in payload:
        value |= (byte & 0x7F) << shift
        shift += 7
        check(shift <= 49, "blob: a number of more than 7 bytes")
        if byte < 0x80:
            check(byte or shift == 7, "blob: a number with a zero byte at its end")
            yield value
            value = shift = 0
    check(shift == 0, "blob: ends within a number")


def deaths(payload):
    """Ids of a death blob."""
    found = 0
    for distance in varints(payload):
        check(distance > 0, "death blob: order")
        found += distance
        yield found


def deltas(payload):
    """Updates of a delta blob: (stream, block, chunk)."""
    numbers = varints(payload)
    try:
        base = next(numbers) - 1
        for stream in numbers:
            block = (next(numbers) - 1) * 512
            for _ in range(next(numbers)):
                block += next(numbers) - 1
                yield stream - 1, block, base + next(numbers) - 1
                block += 1
    except StopIteration:
        raise Damaged("delta blob: ends within an update") from None


# Records


def stream_record(data):
    """Where a stream's map is (48 B)."""
    check(len(data) == 48 and number(data, 0, 2) == 1 and data[4] == 8, "stream record: version or width")
    check(9 <= data[3] <= 16, "stream record: block size")
    reserved(data, 5, 3, "stream record")
    return Stream(data[2], 1 << data[3], *struct.unpack_from("<QQ", data, 8), pointer(data[24:48]))


def volume_record(name, data):
    """What a reader of blocks needs of a volume or a snapshot."""
    check(len(data) >= 52 and number(data, 0, 2) == 1 and data[2] <= 1, f"record of {name}: version or state")
    check(data[2] == (b"@" in name), f"record of {name}: state")
    return Volume(name, data[3], *struct.unpack_from("<QQQ", data, 8))


def plain(data, codec, plain_len):
    """The plain bytes of a stored chunk of data."""
    if codec == RAW:
        found = data
    elif codec == LZ4:
        found = lz4.block.decompress(data, uncompressed_size=plain_len)
    else:
        found = zstandard.ZstdDecompressor().decompress(data, max_output_size=plain_len)
    check(len(found) == plain_len, f"chunk of {len(found)} plain bytes, not {plain_len}")
    return found


# Lane


def chain_seed(pool, shard, mount):
    """The chain value before the first frame of a mount."""
    return xxh3(pool + struct.pack("<HQ", shard, mount))


def frame(data, position, pool, shard):
    """A frame that is sound by itself, at any position if that is None: its header's values and records."""
    check(data[:8] == b"VARVFRAM", "frame: magic")
    count, frame_bytes, header_bytes = struct.unpack_from("<III", data, 12)
    check(struct.unpack_from("<HH", data, 8) == (1, 0) and count <= 4000, "frame: version, flags or records")
    check(header_bytes == round_up(128 + 64 * count, 512) and frame_bytes <= len(data), "frame: sizes")
    check(data[24:40] == pool and number(data, 40, 2) == shard and not any(data[42:48]), "frame: another lane's")
    check(position in (None, number(data, 64, 8)), "frame: position")
    previous, chain = struct.unpack_from("<QQ", data, 112)
    check(chain == xxh3(data[128:header_bytes], xxh3(data[:120], previous)), "frame: chain")
    at, records = header_bytes, []
    for i in range(count):
        descriptor = data[128 + 64 * i:192 + 64 * i]
        length = number(descriptor, 4, 4)
        payload = data[at:at + length]
        check(payload_checksum(payload) == number(descriptor, 40, 8), "frame: checksum of a payload")
        records.append(Record(descriptor[0], *struct.unpack_from("<QQQQ", descriptor, 8), payload))
        at += round_up(length, 512)
    check(frame_bytes == round_up(at, 4096), "frame: length")
    mount, seq = struct.unpack_from("<QQ", data, 48)
    return namedtuple("Frame", "mount seq position bytes witnesses previous chain records")(
        mount, seq, number(data, 64, 8), frame_bytes, struct.unpack_from("<QQ", data, 96), previous, chain, records)
