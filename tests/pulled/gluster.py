"""GlusterFS on six drives with a file system each, disperse 4+2, through its FUSE client; daemons of its own, beside none of the system's."""

import os
import shutil
import signal
import socket
import subprocess
import threading
import time

from support import case
from support.loops import MountedDrive, run

from .files import FileSystem
from .ledger import Unreadable
from .system import Absent, files_below, flip_bits

PROGRAMS = ("glusterd", "gluster", "glusterfs")
VOLUME = "items"
PORT = 24007  # Bricks look for glusterd there, wherever it was told to listen.
START_S_MAX = 60
STOPPED_S, RUNS_S = 0.4, 0.1


class Gluster(FileSystem):
    """Any four of six bricks are enough."""

    name, title = "gluster", "GlusterFS, disperse 4+2"
    about = ("files over FUSE, each synced with its directory; its health checker looks every 5 s; drives are replaced by `replace-brick … commit force`; well: "
             "all bricks are online, and `heal info summary` counts nothing. The slow drive is one whose brick's process is stopped for 400 of 500 ms")
    drives, parity = 6, 2

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.mounts, self.bricks, self.glusterd = [], [], None
        self.port, self.address, self.is_ended = PORT, address(), False

    @classmethod
    def install(cls, context):
        absent = [program for program in PROGRAMS if not shutil.which(program)]
        if absent:
            raise Absent(f"{', '.join(absent)} not installed (Debian: glusterfs-server)")
        if not address():
            raise Absent("it needs an address that is not loopback")
        with socket.socket() as probe:
            if probe.connect_ex((address(), PORT)) == 0:
                raise Absent("another glusterd runs on this machine")

    @classmethod
    def version(cls):
        return run("gluster", "--version").splitlines()[0]

    def create(self):
        self.mounts = [MountedDrive(self.context, os.path.join(self.directory, f"d{number}"), self.drive_bytes) for number in range(self.drives)]
        self.bricks = [f"{self.address}:{drive.path}" for drive in self.mounts]
        self.context.cleanup(self.kill)
        work = os.path.join(self.directory, "glusterd")
        os.makedirs(work)
        with open(os.path.join(self.directory, "glusterd.vol"), "w", encoding="utf-8") as file:
            file.write(f"volume management\n    type mgmt/glusterd\n    option working-directory {work}\n    option run-directory {work}\n"
                       "    option transport-type socket\n"
                       f"    option transport.socket.listen-port {self.port}\n    option ping-timeout 0\nend-volume\n")
        self._start_glusterd()
        self._cli("volume", "create", VOLUME, "disperse", "6", "redundancy", "2", *self.bricks, "force")
        for option, value in (("storage.health-check-interval", "5"), ("network.ping-timeout", "10"), ("performance.open-behind", "off")):
            self._cli("volume", "set", VOLUME, option, value)
        self._cli("volume", "start", VOLUME)
        self._mount()

    def start(self):
        self._start_glusterd()
        self._cli("volume", "start", VOLUME, "force", expect=None)
        self._mount()

    def _start_glusterd(self):
        log = os.path.join(self.directory, "log")
        os.makedirs(log, exist_ok=True)
        self.glusterd = subprocess.Popen(["glusterd", "--no-daemon", "--volfile", os.path.join(self.directory, "glusterd.vol"), "--pid-file",
                                          os.path.join(self.directory, "glusterd.pid"), "--log-file", os.path.join(log, "glusterd.log")],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.context.wait_for(lambda: self._serves(), "glusterd", START_S_MAX)
        except case.Failure as why:
            raise Unreadable(str(why)) from None

    def _serves(self):
        return subprocess.run(["gluster", "--mode=script", "volume", "list"], capture_output=True, timeout=30, check=False).returncode == 0

    def _mount(self):
        done = subprocess.run(["glusterfs", f"--volfile-server={self.address}", f"--volfile-server-port={self.port}", f"--volfile-id={VOLUME}",
                               f"--log-file={self.directory}/log/mount.log", "--attribute-timeout=0", "--entry-timeout=0", self.mount],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise Unreadable(f"mount: {done.stderr.strip()}")
        try:  # Bricks connect one after the other.
            self.context.wait_for(lambda: os.path.ismount(self.mount), "the mount", START_S_MAX)
        except case.Failure as why:
            raise Unreadable(str(why)) from None
        time.sleep(3)

    def stop(self):
        subprocess.run(["umount", self.mount], capture_output=True, timeout=60, check=False)
        self._cli("volume", "stop", VOLUME, "force", expect=None)
        self.kill()

    def kill(self):
        self.is_ended = True
        for pid in self._pids():
            signal_pid(pid, signal.SIGKILL)
        if self.glusterd:
            self.glusterd.wait()
        subprocess.run(["umount", "--lazy", self.mount], capture_output=True, check=False)

    def pull(self, number):
        self.mounts[number].pull()

    def detach(self, number):
        self.mounts[number].detach()

    def attach(self, number):
        self.mounts[number].detach()
        self.mounts[number].attach()

    def replace(self, number):
        drive = MountedDrive(self.context, os.path.join(self.directory, f"new-{number}"), self.drive_bytes)
        new = f"{self.address}:{drive.path}"
        self._cli("volume", "replace-brick", VOLUME, self.bricks[number], new, "commit", "force")
        self.mounts[number], self.bricks[number] = drive, new

    def is_rebuilding(self):
        return self._pending() > 0

    def health(self):
        status = self._cli("volume", "status", VOLUME, expect=None)
        online = sum(line.split()[-2] == "Y" for line in joined(status) if line.startswith("Brick "))
        pending = self._pending()
        return online == self.drives and pending == 0, f"{online} of {self.drives} bricks online, {pending} entries to heal"

    def _pending(self):
        text = self._cli("volume", "heal", VOLUME, "info", "summary", expect=None)
        counts = [line.rpartition(":")[2].strip() for line in text.splitlines() if line.startswith("Total Number of entries")]
        return sum(int(count) if count.isdecimal() else 1 for count in counts) if counts else 1

    def scrub(self):
        self._cli("volume", "heal", VOLUME, "full", expect=None)

    def flip(self, number, count):
        flip_bits(self.context.random, dict.fromkeys(files_below(self.mounts[number].path), 0), count)

    def slow(self, number):
        pids = [pid for pid in self._pids() if self.mounts[number].path in command_line(pid) and "glusterfsd" in command_line(pid)]
        self.is_ended = False

        def stall():
            while not self.is_ended:
                for kind, seconds in ((signal.SIGSTOP, STOPPED_S), (signal.SIGCONT, RUNS_S)):
                    for pid in pids:
                        signal_pid(pid, kind)
                    time.sleep(seconds)

        threading.Thread(target=stall, daemon=True).start()

    def _cli(self, *words, expect=0):
        command = ["gluster", "--mode=script", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        except subprocess.TimeoutExpired:
            return "no answer"
        if expect is not None and done.returncode != expect:
            raise Unreadable(f"{' '.join(words[:2])}: {(done.stdout + done.stderr).strip()[-300:]}")
        return done.stdout + done.stderr

    def _pids(self):
        """Its processes: those whose command line names its directory."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdecimal() and self.directory in command_line(int(name)) and command_line(int(name)).partition(" ")[0].rpartition("/")[2].startswith("gluster"):
                found.append(int(name))
        return found


def joined(status):
    """Lines of `volume status`, those that were wrapped put together."""
    lines = []
    for line in status.splitlines():
        if line.startswith(("Brick ", "Self-heal", "Task", "-", "Gluster", "Status")) or not lines:
            lines.append(line)
        else:
            lines[-1] += line
    return [line for line in lines if line.split()]


def command_line(pid):
    """The words of a process; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def signal_pid(pid, kind):
    """Sends a signal to a process that may have ended."""
    try:
        os.kill(pid, kind)
    except ProcessLookupError:
        pass


def address():
    """An address of this machine that is not loopback; glusterd refuses others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found = probe.getsockname()[0]
        except OSError:
            return ""
    return "" if found.startswith("127.") else found
