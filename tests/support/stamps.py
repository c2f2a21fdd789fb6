"""Sectors that say where they belong and which write they are of.

A 512-byte sector holds magic, run, sector index, sequence number, a mix of those,
and 60 words that follow from the mix: so a sector that reads as something else than
what was written there is seen, and so is one that is torn inside. Sequence 0 stands
for a sector of zeros.
"""

import numpy as np

SECTOR_BYTES = 512
WORDS = SECTOR_BYTES // 8
MAGIC = np.uint64(0x7661_7276_6573_746D)
_MULTIPLIERS = np.random.default_rng(1).integers(1 << 62, size=WORDS - 4, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


def _sectors(run, first, sequences):
    count = len(sequences)
    index = np.arange(first, first + count, dtype=np.uint64)
    mix = (index * np.uint64(0x9E3779B97F4A7C15)) ^ (sequences * np.uint64(0xC2B2AE3D27D4EB4F)) ^ np.uint64(run)
    mix ^= mix >> np.uint64(29)
    mix *= np.uint64(0xBF58476D1CE4E5B9)
    mix ^= mix >> np.uint64(32)
    words = np.empty((count, WORDS), dtype=np.uint64)
    words[:, 0] = MAGIC ^ np.uint64(run)
    words[:, 1] = index
    words[:, 2] = sequences
    words[:, 3] = mix
    np.multiply(mix[:, None], _MULTIPLIERS[None, :], out=words[:, 4:])
    return words


def encode(run, first, count, sequence):
    """Bytes of `count` sectors from sector `first`, stamped with `sequence`."""
    return _sectors(run, first, np.full(count, sequence, dtype=np.uint64)).tobytes()


def decode(run, first, data):
    """Sequence of each sector (0: zeros), and whether it is intact."""
    words = np.frombuffer(data, dtype=np.uint64).reshape(-1, WORDS)
    sequences = words[:, 2].copy()
    intact = (words == _sectors(run, first, sequences)).all(axis=1)
    zero = ~words.any(axis=1)
    sequences[zero] = 0
    return sequences, intact | zero


def describe(run, first, data, sector):
    """What a wrong sector holds, for the failure's text."""
    words = np.frombuffer(data, dtype=np.uint64).reshape(-1, WORDS)[sector - first]
    if words[0] != MAGIC ^ np.uint64(run):
        return f"bytes that were never written: {words[:4].tobytes().hex()}…"
    if words[1] != sector:
        return f"sector {int(words[1])}, sequence {int(words[2])}"
    return f"a damaged sector of sequence {int(words[2])}"
