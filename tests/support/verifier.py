"""Load whose every acknowledged write is remembered, and the check of a volume against it.

The model knows, for each sector, which values it may hold:
 V1 the value of the last write, trim or zeroing that was acknowledged;
 V2 the value of a command that was in flight when the server died;
 V3 in the hot region, where commands may overlap in flight: any value not known to be
    older than an acknowledged one (it completed before that one was issued).
What a check finds becomes the acknowledged value: a later check must find the same.
Trim counts as zeroing, which Varve promises and NBD does not: where there is no room to write parts of blocks, of the blocks that it covers
wholly (`whole_trims`).
"""

import errno
import time

import numpy as np

from . import stamps
from .case import Failure
from .nbd_pool import ConnectionLost, Pool

SECTOR = stamps.SECTOR_BYTES
READ_BYTES = 1 << 20
BLOCK_BYTES = 4096
HOT_SECTORS = 512
OVERLAP_SHARE = 0.08
MIX = {"write": 70, "read": 12, "trim": 6, "zero": 8, "flush": 4}
WRITES_ONLY = {"write": 1}


class Verifier:
    """The model of one volume, and the load that fills it."""

    def __init__(self, random, size_bytes, whole_trims=False):
        self.random = random
        self.whole_trims = whole_trims
        self.run = random.getrandbits(63)
        self.sectors = size_bytes // SECTOR
        self.acked = np.zeros(self.sectors, dtype=np.uint64)
        self.busy = np.zeros(self.sectors, dtype=np.uint8)
        self.in_flight = {}  # sequence -> (first, count, value), outside the hot region
        self.hot = [[(0, 0, 0)] for _ in range(HOT_SECTORS)]  # (value, issued, completed or None)
        self.sequence = 0
        self.pieces = 0
        self.clock = 0
        self.counts = {"write": 0, "read": 0, "trim": 0, "zero": 0, "flush": 0, "bytes": 0, "refused": 0}
        self.failure = None
        self._retries = []

    # --- load ---------------------------------------------------------------

    def load(self, uri, seconds, depth=32, until=None, errors_allowed=(), mix=MIX):
        """Runs random commands until time is up, `until()` holds, or the server dies.

        Returns whether the server was still there. An errno that is not in
        `errors_allowed` fails; one that is leaves the sectors either old or new.
        """
        try:
            pool = Pool(uri)
        except ConnectionLost:
            return False
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline and not (until and until()):
                while pool.in_flight < depth:
                    self._issue(pool, errors_allowed, mix)
                pool.turn()
                self._raise_failure()
            pool.drain()
            self._raise_failure()
            return True
        except ConnectionLost:
            self._raise_failure()
            return False
        finally:
            pool.close()
            self.busy[:] = 0

    def _issue(self, pool, errors_allowed, mix):
        kind = self.random.choices(tuple(mix), tuple(mix.values()))[0]
        if kind == "flush":
            pool.flush(lambda error: self._done_flush(pool, error))
            return
        if kind != "read" and self.random.random() < OVERLAP_SHARE:
            self._issue_hot(pool, kind, errors_allowed)
            return
        first, count = self._place(kind)
        if self.busy[first:first + count].any():
            return
        self.busy[first:first + count] = 1
        if kind == "read":
            pool.read(first * SECTOR, count * SECTOR, lambda error, data: self._done_read(pool, first, count, error, data))
            return
        self.sequence += 1
        sequence, value = self.sequence, self.sequence if kind == "write" else 0
        self.in_flight[sequence] = (first, count, value)
        self._send(pool, kind, first, count, sequence,
                   lambda error: self._done(pool, kind, sequence, error, errors_allowed))

    def _place(self, kind):
        shape = self.random.random()
        if kind in ("trim", "zero") and shape < 0.1:
            count = self.random.randint(1, 8192)
        elif shape < 0.15:
            count = self.random.randint(1, 7)
        elif shape < 0.7:
            count = 8
        elif shape < 0.93:
            count = 8 * self.random.randint(2, 16)
        else:
            count = self.random.randint(256, 2048)
        count = min(count, self.sectors - HOT_SECTORS)
        first = self.random.randint(HOT_SECTORS, self.sectors - count)
        if count % 8 == 0 and self.random.random() < 0.9:
            first -= first % 8
        return self._whole(kind, first, count)

    def _whole(self, kind, first, count):
        """The blocks of 4 KiB that a command is about, where trims are to cover them wholly; the regions begin and end with some."""
        if kind != "trim" or not self.whole_trims:
            return first, count
        begin = first - first % 8
        return begin, (first + count - begin + 7) // 8 * 8

    def _send(self, pool, kind, first, count, sequence, done):
        self.counts[kind] += 1
        if kind == "write":
            self.counts["bytes"] += count * SECTOR
            pool.write(first * SECTOR, stamps.encode(self.run, first, count, sequence), done,
                       fua=self.random.random() < 0.1)
        elif kind == "trim":
            pool.trim(first * SECTOR, count * SECTOR, done)
        else:
            pool.zero(first * SECTOR, count * SECTOR, done, no_hole=self.random.random() < 0.5)

    def _done(self, pool, kind, sequence, error, errors_allowed):
        first, count, value = self.in_flight[sequence]
        if error and pool.lost:
            return  # V2: stays in flight
        self.busy[first:first + count] = 0
        if error in errors_allowed and error:
            self.counts["refused"] += 1
            return  # as if in flight: old or new
        if error:
            self._fail(f"{kind} of sectors {first}+{count}: errno {error}")
            return
        del self.in_flight[sequence]
        self.acked[first:first + count] = value  # V1
        if self.counts["refused"]:
            self._forget_older(first, count, sequence)

    def _forget_older(self, first, count, sequence):
        # A refused command is over: an acknowledged later one hides it where they meet.
        for older, (start, length, value) in list(self.in_flight.items()):
            if older >= sequence or start + length <= first or first + count <= start:
                continue
            if self.busy[start:start + length].any():
                continue
            del self.in_flight[older]
            if start < first:
                self.in_flight[self._piece_of(older)] = (start, first - start, value)
            if first + count < start + length:
                self.in_flight[self._piece_of(older)] = (first + count, start + length - first - count, value)

    def _piece_of(self, sequence):
        # A key of its own for what is left of a command, between its sequence and the next.
        self.pieces += 1
        return int(sequence) + self.pieces / 2**30

    def _done_read(self, pool, first, count, error, data):
        if error and pool.lost:
            return
        self.busy[first:first + count] = 0
        self.counts["read"] += 1
        if error:
            self._fail(f"read of sectors {first}+{count}: errno {error}")
            return
        self._compare(first, data, adopt=False)

    def _done_flush(self, pool, error):
        if error and not pool.lost:
            self._fail(f"flush: errno {error}")
        self.counts["flush"] += 1

    def _issue_hot(self, pool, kind, errors_allowed):
        count = self.random.choice((1, 3, 8, 8, 8, 16, 32))
        first = self.random.randint(0, HOT_SECTORS - count)
        first, count = self._whole(kind, first, count)
        if count % 8 == 0:
            first -= first % 8
        self.sequence += 1
        self.clock += 1
        sequence, issued = self.sequence, self.clock
        value = sequence if kind == "write" else 0
        for sector in range(first, first + count):
            self.hot[sector].append((value, issued, None))
        self._send(pool, kind, first, count, sequence,
                   lambda error: self._done_hot(pool, kind, first, count, value, issued, error, errors_allowed))

    def _done_hot(self, pool, kind, first, count, value, issued, error, errors_allowed):
        if error and pool.lost:
            return  # V2: never completed
        if error and error not in errors_allowed:
            self._fail(f"{kind} of hot sectors {first}+{count}: errno {error}")
            return
        self.counts["refused"] += bool(error)
        self.clock += 1
        for sector in range(first, first + count):
            kept = []
            for entry in self.hot[sector]:
                if entry == (value, issued, None):
                    kept.append((value, issued, self.clock))
                elif error or entry[2] is None or entry[2] > issued:  # V3; a refused command hides nothing
                    kept.append(entry)
            self.hot[sector] = kept

    def _fail(self, message):
        self.failure = self.failure or message

    def _raise_failure(self):
        if self.failure:
            raise Failure(self.failure)

    # --- check --------------------------------------------------------------

    def trim(self, uri, first, count):
        """Trims sectors outside the hot region and waits for the acknowledgement."""
        assert first >= HOT_SECTORS
        pool = Pool(uri, connections=1)
        self.sequence += 1
        sequence = self.sequence
        self.in_flight[sequence] = (first, count, 0)
        self._send(pool, "trim", first, count, sequence, lambda error: self._done(pool, "trim", sequence, error, ()))
        pool.drain()
        pool.close()
        self._raise_failure()

    def verify(self, uri, depth=8, damaged=None):
        """Reads the whole volume and compares; returns the number of sectors that hold data.

        With a list as `damaged`, 4 KiB blocks that answer EIO are noted there instead of failing.
        """
        pool = Pool(uri)
        size_bytes = self.sectors * SECTOR
        offset = 0
        try:
            while offset < size_bytes or pool.in_flight or self._retries:
                while self._retries and pool.in_flight < depth:
                    block, count = self._retries.pop()
                    pool.read(block, count, self._checker(pool, block, count, damaged))
                while offset < size_bytes and pool.in_flight < depth:
                    count = min(READ_BYTES, size_bytes - offset)
                    pool.read(offset, count, self._checker(pool, offset, count, damaged))
                    offset += count
                pool.turn()
                self._raise_failure()
        except ConnectionLost as lost:
            raise Failure(f"the server went away during the check: {lost}") from lost
        finally:
            pool.close()
        self._raise_failure()
        self.in_flight.clear()
        return int(np.count_nonzero(self.acked))

    def _checker(self, pool, offset, count, damaged):
        def done(error, data):
            if error == errno.EIO and damaged is not None and not pool.lost:
                if count == BLOCK_BYTES:
                    damaged.append(offset)
                    return
                for block in range(offset, offset + count, BLOCK_BYTES):
                    self._retries.append((block, BLOCK_BYTES))
            elif error:
                self._fail(f"read at {offset} during the check: errno {error}")
            else:
                self._compare(offset // SECTOR, data, adopt=True)
        return done

    def _compare(self, first, data, adopt):
        found, intact = stamps.decode(self.run, first, data)
        count = len(found)
        allowed = intact & (found == self.acked[first:first + count])
        for start, length, value in self.in_flight.values():
            low, high = max(start, first), min(start + length, first + count)
            if low < high:
                part = slice(low - first, high - first)
                allowed[part] |= intact[part] & (found[part] == np.uint64(value))
        for sector in range(first, min(first + count, HOT_SECTORS)):
            values = [entry[0] for entry in self.hot[sector]]
            allowed[sector - first] = intact[sector - first] and int(found[sector - first]) in values
        if not allowed.all():
            wrong = first + int(np.argmin(allowed))
            self._fail(self._explain(wrong, first, data, found, intact, int((~allowed).sum())))
        elif adopt:
            self.acked[first:first + count] = found
            for sector in range(first, min(first + count, HOT_SECTORS)):
                self.hot[sector] = [(int(found[sector - first]), 0, 0)]

    def _explain(self, sector, first, data, found, intact, wrong_count):
        if sector < HOT_SECTORS:
            expected = f"one of {sorted({entry[0] for entry in self.hot[sector]})}"
        else:
            late = [v for s, n, v in self.in_flight.values() if s <= sector < s + n]
            expected = f"sequence {int(self.acked[sector])}" + (f" or in flight {late}" if late else "")
        held = f"sequence {int(found[sector - first])}" if intact[sector - first] else stamps.describe(
            self.run, first, data, sector)
        return (f"sector {sector} (byte {sector * SECTOR}) holds {held}, must hold {expected}; "
                f"{wrong_count} wrong sectors in this read; newest sequence {self.sequence}")
