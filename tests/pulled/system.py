"""What the matrix asks of each system: drives that are pulled while it serves, or taken away and brought back while it is stopped."""

import os
import threading
import time

from .ledger import Unreadable

ANSWER_S_MAX = 15
KEPT_S_MAX = 180
SLOW_PER_S = 25
MIB = 1 << 20


class Inapplicable(Exception):
    """A scene that this system cannot be in; the text says why."""


class Absent(Exception):
    """A system that cannot be had on this machine; the text says why."""


class System:
    """One system with its drives, fresh. `drives` is how many it has, `parity` how many of them it is to survive."""

    name = title = about = None
    drives = parity = 0
    drive_bytes = 512 * MIB
    immortal = ""  # Why nobody can kill it alone.
    flipped_s_max = KEPT_S_MAX  # How long it may take until it is well again after bits were flipped and scrubbed.

    def __init__(self, context, directory):
        self.context, self.directory = context, directory
        self.notes = []  # What had to be done to it that a reader should know.
        os.makedirs(directory)

    @classmethod
    def install(cls, context):
        """Gets what it needs. Raises Absent."""

    @classmethod
    def version(cls):
        """What it calls itself."""
        raise NotImplementedError

    def create(self):
        """Makes drives and system, and serves."""
        raise NotImplementedError

    def start(self):
        """Serves again, with the drives that are there. Raises Unreadable if it refuses."""
        raise NotImplementedError

    def start_without(self):
        """The same, as somebody does it who knows that the others are lost."""
        self.start()

    def stop(self):
        """Ends in order."""
        raise NotImplementedError

    def kill(self):
        """Ends by SIGKILL, or at the end of a scene as it can."""
        raise NotImplementedError

    def pull(self, number):
        """A drive answers nothing but errors from now on, while the system serves."""
        raise NotImplementedError

    def detach(self, number):
        """Takes a drive away, while the system is stopped."""
        raise NotImplementedError

    def attach(self, number):
        """Brings a drive back as it was when it was pulled or detached, while the system is stopped."""
        raise NotImplementedError

    def replace(self, number):
        """Puts an empty drive in the place of one, while the system serves; its redundancy is to come back by what its manual says."""
        raise NotImplementedError

    def is_rebuilding(self):
        """Whether it is at that."""
        raise NotImplementedError

    def put(self, key, body):
        """Writes an item; returns once it is acknowledged as durable. Raises Unreadable if it is not."""
        raise NotImplementedError

    def get(self, key, size):
        """Reads an item; `size` is the longest that it may have. Raises Missing or Unreadable."""
        raise NotImplementedError

    def delete(self, key):
        """Removes an item. Raises Unreadable."""
        raise NotImplementedError

    def ends_at(self, key, found, size):
        """Whether what was read of an item is of that size: what lies in a volume has none of its own."""
        return len(found) == size

    def tears(self, key):
        """Whether a write of an item that fails may leave parts of it, as on any disk."""
        return False

    def health(self):
        """Whether it says of itself that all is well, and in which words."""
        raise NotImplementedError

    def claims(self):
        """How many more drives may be lost, as it says; none where it says nothing of that."""
        return 0

    def scrub(self):
        """Has it read everything, and mend what is wrong; returns when that is done, or has begun."""

    def flip(self, number, count):
        """Flips bits in what a drive has stored, while the system is stopped."""
        raise NotImplementedError

    def slow(self, number):
        """A drive becomes slow, while the system serves."""
        raise NotImplementedError

    def wait_ok(self, seconds=KEPT_S_MAX):
        """Waits until it says that all is well; the seconds that took, or none."""
        begin = time.monotonic()
        while time.monotonic() - begin < seconds:
            if self.health()[0]:
                return round(time.monotonic() - begin, 1)
            time.sleep(0.3)
        return None

    def wait_rebuilding(self, seconds=10):
        """Waits until a rebuild is under way; returns whether it was seen to be."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.is_rebuilding():
                return True
            time.sleep(0.02)
        return False


def bounded(action, seconds=ANSWER_S_MAX):
    """Does something that may hang for ever in the kernel, on a thread that is given up then. Raises Unreadable."""
    outcome = []

    def act():
        try:
            outcome.append((action(), None))
        except Exception as error:  # noqa: BLE001: it is raised below
            outcome.append((None, error))

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise Unreadable(f"no answer within {seconds} s")
    result, error = outcome[0]
    if error:
        raise error
    return result


def flip_bits(random, begins, count):
    """Flips so many bits of what files have in pages that are not zeros, each from an offset on: what a drive is known by is left alone."""
    pages = [(path, offset) for path, begin in begins.items() for offset in written_pages(path) if offset >= begin]
    for path, offset in random.choices(pages, k=count):
        with open(path, "r+b", buffering=0) as file:
            at = offset + random.randrange(4096)
            byte = os.pread(file.fileno(), 1, at)
            if byte:
                os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << random.randrange(8)]), at)
    for path in {path for path, _ in pages}:
        with open(path, "rb") as file:
            os.fsync(file.fileno())


def written_pages(path):
    """Offsets of pages of 4 KiB that are not zeros."""
    found, zeros, position = [], bytes(4096), 0
    with open(path, "rb", buffering=0) as file:
        while True:
            try:
                start = os.lseek(file.fileno(), position, os.SEEK_DATA)
            except OSError:
                return found
            position = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for offset in range(start // MIB * MIB, position, MIB):
                piece = os.pread(file.fileno(), MIB, offset)
                found += [offset + at for at in range(0, len(piece), 4096) if piece[at:at + 4096] != zeros[:len(piece) - at]]


def files_below(top):
    """All files of a directory."""
    return sorted(os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names)
