"""btrfs on loop devices."""

import os
import subprocess

from support.loops import LoopDrive, Throttle, device_number, run

from .files import FileSystem
from .ledger import Unreadable
from .system import MIB, SLOW_PER_S, Absent, flip_bits

FIRST_SUPERBLOCK_END = MIB


class Btrfs(FileSystem):
    """Two drives, raid1 for data and metadata."""

    name, title = "btrfs-raid1", "btrfs raid1"
    about = ("files, each synced with its directory; mounted with `degraded` where a drive is missing; drives are replaced by `btrfs replace`, with no balance "
             "after it; well: `btrfs device stats --check` counts nothing, and no device is missing")
    profile = "raid1"
    immortal = "it is in the kernel, which cannot be killed alone"
    drives, parity = 2, 1

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.loops, self.attached = [], set()

    @classmethod
    def install(cls, context):
        with open("/proc/filesystems", encoding="utf-8") as file:
            if "btrfs" not in file.read().split():
                raise Absent("this kernel has no btrfs")

    @classmethod
    def version(cls):
        return f"{run('btrfs', '--version').split(chr(10))[0].strip()}, Linux {os.uname().release}"

    def create(self):
        self.loops = [LoopDrive(self.context, os.path.join(self.directory, f"d{number}"), self.drive_bytes) for number in range(self.drives)]
        self.attached = set(range(self.drives))
        self.context.cleanup(self.kill)
        run("mkfs.btrfs", "-q", "-f", "-d", self.profile, "-m", self.profile, *(loop.device for loop in self.loops))
        self.start()

    def start(self):
        run("btrfs", "device", "scan", "--forget")
        devices = [self.loops[number].device for number in sorted(self.attached)]
        for device in devices:
            subprocess.run(["btrfs", "device", "scan", device], capture_output=True, check=False)
        refused = "no device"
        for options in ((), ("degraded",)):
            for device in devices:
                refused = self._mount(device, *options)
                if not refused:
                    self.notes += [note for note in (f"mounted with `{option}`, without which it refuses" for option in options) if note not in self.notes]
                    return
        raise Unreadable(refused)

    def _mount(self, device, *options):
        done = subprocess.run(["mount", "-t", "btrfs", "-o", ",".join(["noatime", *options]), device, self.mount], capture_output=True, text=True, check=False)
        return " ".join(done.stderr.replace(self.directory, "").split()) if done.returncode else ""

    def stop(self):
        for command in (["umount", self.mount], ["umount", "--lazy", self.mount]):
            if os.path.ismount(self.mount):
                subprocess.run(command, capture_output=True, timeout=120, check=False)

    def kill(self):
        self.stop()  # Only for the end of a scene.

    def pull(self, number):
        self.loops[number].pull()

    def detach(self, number):
        self.attached.discard(number)
        self.loops[number].plug()

    def attach(self, number):
        self.attached.add(number)
        self.loops[number].plug()

    def replace(self, number):
        new = LoopDrive(self.context, os.path.join(self.directory, f"new-{number}"), self.drive_bytes)
        done = subprocess.run(["btrfs", "replace", "start", "-f", str(number + 1), new.device, self.mount], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unreadable(f"btrfs replace: {done.stderr.strip()}")
        self.loops[number] = new
        self.attached.add(number)

    def is_rebuilding(self):
        return "%" in self._say("replace", "status", "-1", self.mount)

    def health(self):
        stats = subprocess.run(["btrfs", "device", "stats", "--check", self.mount], capture_output=True, text=True, check=False)
        shown = self._say("filesystem", "show", self.mount)
        counted = [line for line in stats.stdout.splitlines() if not line.endswith(" 0")]
        is_missing = "missing" in shown.lower()
        text = "; ".join([*(["a device is missing"] if is_missing else []), *(" ".join(line.split()) for line in counted)])
        return not is_missing and stats.returncode == 0 and not self.is_rebuilding(), text or "no errors"

    def scrub(self):
        subprocess.run(["btrfs", "scrub", "start", "-B", self.mount], capture_output=True, check=False)
        subprocess.run(["btrfs", "device", "stats", "--reset", self.mount], capture_output=True, check=False)  # They count for ever.

    def flip(self, number, count):
        flip_bits(self.context.random, {self.loops[number].file: FIRST_SUPERBLOCK_END}, count)
        run("blockdev", "--flushbufs", self.loops[number].device)

    def slow(self, number):
        throttle = Throttle(self.context, "btrfs")
        throttle.add(os.getpid())
        self.context.cleanup(lambda: leave(throttle))
        throttle.limit(device_number(self.loops[number].device), SLOW_PER_S)

    def _say(self, *words):
        done = subprocess.run(["btrfs", *words], capture_output=True, text=True, check=False)
        return done.stdout + done.stderr


class Btrfs10(Btrfs):
    """Four drives, raid10."""

    name, title = "btrfs-raid10", "btrfs raid10"
    profile = "raid10"
    drives, parity = 4, 1


def leave(throttle):
    """This process is in the control group of all again."""
    with open(os.path.join(os.path.dirname(throttle.directory), "cgroup.procs"), "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
