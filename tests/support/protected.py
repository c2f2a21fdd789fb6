"""A server on several drives with redundancy: drives that go away while it is stopped and come back, and what it says of itself."""

import json
import os
import stat
import subprocess
import time

from . import server as servers
from .case import Failure
from .gateway import LISTEN

REFUSED_S_MAX = 60
REPAIRED_S_MAX = 300
OK, ATTENTION, AT_RISK, LOST, UNKNOWN = range(5)
STATES = ("ok", "attention", "at risk", "lost", "unknown")
SETTINGS = {**servers.TIGHT, **LISTEN, "pool.missing_wait_s": "0"}


def strips(protect):
    """Data strips and parity strips, or copies beyond the first, of a class."""
    kind, numbers = protect.split(":")
    return (1, int(numbers) - 1) if kind == "mirror" else tuple(map(int, numbers.split("+")))


def has_spare(protect, drives):
    """Whether a lost drive is rebuilt onto the others."""
    return drives > sum(strips(protect))


class Pool(servers.Varve):
    """`varve serve` on drives that are directories, or what `drives` names."""

    def __init__(self, directory, count, drive_bytes, settings=None, drives=None):
        super().__init__(directory, drive_bytes, {**SETTINGS, **(settings or {})})
        self.drives = drives or [os.path.join(directory, f"drive-{number}") for number in range(count)]
        self.flags = []

    def command(self):
        """The command that serves: the pool is remembered."""
        return [self.binary, "serve", "--data", self.directory, "--nbd", f"unix:{self.socket}", *self.flags]

    def create(self, protect, lane_size="16MiB"):
        """Creates the pool; what the command says as JSON."""
        drives = [word for path in self.drives for word in ("--drive", self.drive_word(path))]
        return json.loads(self.cli("pool", "create", *drives, "--protect", protect, "--lane-size", lane_size, "--shards", "2", "--yes", "--json"))

    def drive_word(self, path):
        """How a drive is named on the command line: devices have a size of their own."""
        return path if os.path.exists(path) and stat.S_ISBLK(os.stat(path).st_mode) else f"{path}={self.drive_bytes}"

    def health(self):
        """The exit code of `varve health`, and what it says."""
        command = [self.binary, "--data", self.directory, "health"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def states(self):
        """The state of each drive, by its number."""
        return {drive["number"]: drive["state"] for drive in json.loads(self.cli("drive", "list", "--json"))["drives"]}

    def wait_repaired(self, when, seconds=REPAIRED_S_MAX):
        """Waits until the pool is ok; returns the seconds that took."""
        begin = time.monotonic()
        while True:
            code, printed = self.health()
            if code == OK:
                return time.monotonic() - begin
            if time.monotonic() - begin > seconds:
                raise Failure(f"{when}: not ok after {seconds} s: {code} {printed}\n{self.cli('drive', 'moves')}\n{self.log_tail()}")
            time.sleep(0.2)

    def away(self, number):
        """Takes a drive away."""
        os.rename(self.drives[number], self.aside(number))

    def back(self, number):
        """Brings it back."""
        os.rename(self.aside(number), self.drives[number])

    def aside(self, number):
        """Where a drive is that is away: nobody looks for it there."""
        os.makedirs(os.path.join(self.directory, "aside"), exist_ok=True)
        return os.path.join(self.directory, "aside", str(number))

    def refusal(self):
        """Starts the daemon, which has to refuse; what it prints."""
        before = os.path.getsize(self.log_path)
        self.spawn()
        try:
            code = self.process.wait(timeout=REFUSED_S_MAX)
        except subprocess.TimeoutExpired:
            raise Failure(f"the daemon neither serves nor ends\n{self.log_tail()}") from None
        with open(self.log_path, errors="replace") as log:
            log.seek(before)
            printed = log.read()
        if code == 0:
            raise Failure(f"the daemon ended with 0\n{printed}")
        return printed
