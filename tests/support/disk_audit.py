"""Follows every reference of a cleanly stopped pool by docs/format.md, and recounts what roots and usage entries say."""

from collections import Counter

from . import disk_format as fmt
from .disk_format import Damaged, check

SUMMARY_ENTRY_BYTES = 64
CODECS = ("raw", "as LZ4", "as zstd")


class Audit:
    """The counts and findings of one pass over a pool."""

    def __init__(self, pool):
        self.pool = pool
        self.findings = []
        self.counts = Counter()
        self.deaths = set()
        self.named = Counter()  # (shard, chunk): by how many blocks and pages,
        self.owned = Counter()  # and by how many of streams that were not cut since the chunk was born.
        check(not pool.unapplied(), f"the pool was not stopped cleanly: {', '.join(pool.unapplied())}")
        for shard in pool.shards:
            self._shard(shard)
        for shard in pool.shards:
            self._references(shard)

    def _expect(self, condition, message):
        if not condition:
            self.findings.append(message)

    def _attempt(self, action, what):
        """What `action` returns; None, and a finding, where the bytes are damaged."""
        try:
            return action()
        except Damaged as reason:
            self.findings.append(f"{what}: {reason}")
            return None

    def _shard(self, shard):
        """Trees and blobs of a shard, and every unit that its table names."""
        root, live, with_pages = shard.root, Counter(), set()
        self._expect(all(count == 1 for count in Counter(entry.slot for entry in shard.usage).values()), "a slot is listed twice")
        data_chunks = data_bytes = 0
        for chunk, entry in shard.table.items():
            add(live, entry.location)
            if chunk >= fmt.FIRST_PAGE_ID:
                with_pages.add(entry.location[:2])
                continue
            data_chunks += 1
            data_bytes += taken(entry.location)
            self.counts[f"stored {CODECS[entry.codec]}"] += 1
            self._attempt(lambda number=chunk: shard.data(number), f"chunk {chunk}")
        self._expect((data_chunks, data_bytes) == (root.data_chunks, root.data_bytes), f"shard {shard.index}: {data_chunks} chunks"
                     f" take {data_bytes} B, its root says {root.data_chunks} and {root.data_bytes}")
        self.counts["chunks of data"] += data_chunks
        for stream in shard.streams:
            self._map(shard, stream)
        self._deaths(shard)
        for place in shard.located - set(root.usage):  # Usage blobs do not count themselves.
            with_pages.add(place[:2])
            add(live, place)
        self._usage(shard, live, with_pages)
        self.counts["updates that wait"] += len(shard.waiting)
        for (stream, _), chunk in shard.waiting.items():
            self._name(shard.index, chunk, shard.streams[stream].chunk_ceiling)
        self.counts["pages"] += len(shard.located) + len(shard.pages)

    def _name(self, shard, chunk, ceiling):
        """A map names a chunk."""
        self.named[shard, chunk] += 1
        self.owned[shard, chunk] += chunk >= ceiling

    def _deaths(self, shard):
        """Deaths are in the table, and nothing names those that are not shared."""
        last = 0
        for death in shard.deaths():
            self.counts["deaths"] += 1
            self._expect(death > last, f"shard {shard.index}: death of chunk {death} behind that of {last}")
            self._expect(death in shard.table, f"shard {shard.index}: death of chunk {death}, which is not in the table")
            self.deaths.add((shard.index, death))
            last = death

    def _usage(self, shard, live, with_pages):
        """Usage entries against what was recounted."""
        zones = self.pool.root.zone_owners
        for entry in shard.usage:
            self.counts["segments"] += 1
            found = live.pop((entry.slot, entry.generation), 0)
            where = f"shard {shard.index} slot {entry.slot}"
            self._expect(found == entry.live_bytes, f"{where}: {found} B are live, its usage entry says {entry.live_bytes}")
            if (entry.slot, entry.generation) in with_pages:
                self._expect(entry.has_pages, f"{where}: it has pages, and its usage entry says that it has none")
            self._expect(zones[entry.slot // self.pool.root.zone_segments] == shard.index, f"{where}: in a zone of another shard")
        self._expect(not live, f"shard {shard.index}: {dict(live)} live in segments without usage entries")

    def _map(self, shard, stream):
        """Every page of a stream's map, and what it names."""
        record = shard.streams[stream]
        todo = [(record.root.chunk, record.height - 1, 0)] if record.height else []
        while todo:
            name, level, first = todo.pop()
            self._name(shard.index, name, record.page_ceiling)
            page = self._attempt(lambda place=(name, level): shard.map_page(*place), f"map page {name}")
            if page is None:
                continue
            self._expect(page.position == first, f"map page {name} begins at block {page.position}, not {first}")
            for index, (kind, of_shard, chunk) in enumerate(fmt.map_slots(page)):
                if kind == fmt.PAGE:
                    todo.append((chunk, level - 1, first + index * 512 ** level))
                elif kind == fmt.DATA:
                    self.counts["blocks"] += 1
                    self.counts["blocks of other shards' chunks"] += of_shard != shard.index
                    self._name(of_shard, chunk, record.chunk_ceiling if of_shard == shard.index else 0)

    def _references(self, shard):
        """What maps name is in the table, and once unless it is shared."""
        for (of_shard, chunk), count in self.named.items():
            if of_shard != shard.index:
                continue
            entry = shard.table.get(chunk)
            self._expect(entry, f"shard {of_shard}: chunk {chunk} is named and not in the table")
            owned = self.owned[of_shard, chunk]
            if entry and count > 1 and owned:
                self._expect(entry.shared, f"shard {of_shard}: chunk {chunk} is named {count} times, not shared and not older than cuts")
            if entry and (of_shard, chunk) in self.deaths:
                self._expect(entry.shared or not owned, f"shard {of_shard}: chunk {chunk} is dead and named")
        named_by_keys = shard.pages.keys()
        for chunk in shard.table:
            if (shard.index, chunk) not in self.named and (shard.index, chunk) not in self.deaths and chunk not in named_by_keys:
                self.counts["chunks that nothing names"] += 1


def taken(place):
    """What a unit counts in its segment."""
    return fmt.round_up(place.stored_len, 512) + SUMMARY_ENTRY_BYTES


def add(live, place):
    """Counts a unit as live."""
    live[place.slot, place.generation] += taken(place)
