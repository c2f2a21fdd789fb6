"""What a system acknowledged, and what became of it.

Each item has a key, and each of its versions a body that follows from run, key, version and size. So an item that reads as an earlier version is told
from one that reads as anything else, and nothing has to be kept but numbers. A version that was not acknowledged may be there or not.
"""

import hashlib
import random
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

WORKERS = 6
EXAMPLES_MAX = 3
BLOCK = 4096
OUTCOMES = ("right", "error", "missing", "old", "wrong")


class Missing(Exception):
    """The system says that there is no such item."""


class Unreadable(Exception):
    """The system refuses to read an item, or does not answer in time."""


@dataclass
class Item:
    """One key: the version that was acknowledged last, 0 if none; its size; and versions after it whose fate is unknown."""

    size: int = 0
    version: int = 0
    attempts: dict = field(default_factory=dict)
    sizes: dict = field(default_factory=dict)  # of all versions, to recognise old ones
    next: int = 1


@dataclass
class Tally:
    """How many items read right, and how many otherwise."""

    right: int = 0
    error: int = 0
    missing: int = 0
    old: int = 0
    wrong: int = 0
    examples: list = field(default_factory=list)

    @property
    def lost(self):
        """Items that were acknowledged and do not read right."""
        return self.error + self.missing + self.old + self.wrong

    @property
    def false(self):
        """Items that read as something else than was acknowledged, without an error: an item that is there is said to be missing, too."""
        return self.missing + self.old + self.wrong

    def data(self):
        """As data of a result."""
        found = {outcome: getattr(self, outcome) for outcome in OUTCOMES}
        return {**found, "examples": self.examples} if self.examples else found


class Ledger:
    """All items of one system under test."""

    def __init__(self, seed):
        self.seed = seed
        self.random = random.Random(seed)
        self.items = {}
        self.errors = 0
        self._lock = threading.Lock()

    def body(self, key, version, size):
        """The bytes of a version."""
        digest = hashlib.sha256(f"{self.seed} {key} {version} {size}".encode()).digest()
        return random.Random(digest).randbytes(size)

    def put(self, system, key, size):
        """Puts the next version of a key; returns whether it was acknowledged. An error leaves it unknown."""
        with self._lock:
            item = self.items.setdefault(key, Item())
            version, item.next = item.next, item.next + 1
            item.sizes[version] = size
            item.attempts[version] = size
        try:
            system.put(key, self.body(key, version, size))
        except (Missing, Unreadable):
            with self._lock:
                self.errors += 1
            return False
        with self._lock:
            item.version, item.size = version, size
            item.attempts = {later: attempt for later, attempt in item.attempts.items() if later > version}
        return True

    def put_all(self, system, keys_and_sizes):
        """Puts several at a time; returns how many were acknowledged."""
        with ThreadPoolExecutor(WORKERS) as workers:
            return sum(workers.map(lambda one: self.put(system, *one), keys_and_sizes))

    def forget(self, key):
        """The item was deleted."""
        with self._lock:
            del self.items[key]

    def acknowledged(self):
        """Keys of which a version was acknowledged."""
        return [key for key, item in self.items.items() if item.version]

    def judge(self, system):
        """Reads everything that was acknowledged."""
        with ThreadPoolExecutor(WORKERS) as workers:
            found = list(workers.map(lambda key: self._judge(system, key), self.acknowledged()))
        tally = Tally()
        for outcome, example in found:
            setattr(tally, outcome, getattr(tally, outcome) + 1)
            if example and len(tally.examples) < EXAMPLES_MAX:
                tally.examples.append(example)
        return tally

    def _judge(self, system, key):
        item = self.items[key]
        try:
            found = system.get(key, max([item.size, *item.attempts.values()]))
        except Missing as why:
            return "missing", f"{key}: {why}"[:200]
        except Unreadable as why:
            return "error", f"{key}: {why}"[:200]
        for version, size in [(item.version, item.size), *item.attempts.items()]:
            if found[:size] == self.body(key, version, size) and system.ends_at(key, found, size):
                return "right", None
        if system.tears(key) and self._is_torn(item, key, found):
            return "right", None
        for version, size in item.sizes.items():
            if found[:size] == self.body(key, version, size):
                return "old", f"{key}: version {version} instead of {item.version}"
        return "wrong", f"{key}: {len(found)} bytes with CRC {zlib.crc32(found):08x} instead of {item.size} of version {item.version}"

    def _is_torn(self, item, key, found):
        """Whether each block is of the version that was acknowledged, or of a later one that was not: a write of several that fails may leave some."""
        bodies = [self.body(key, item.version, item.size), *(self.body(key, version, size) for version, size in item.attempts.items())]
        for offset in range(0, item.size, BLOCK):
            piece = found[offset:min(offset + BLOCK, item.size)]
            if not any(body[offset:offset + len(piece)] == piece for body in bodies):
                return False
        return True
