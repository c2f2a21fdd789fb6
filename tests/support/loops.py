"""Drives that can be pulled, slowed and replaced: loop devices over files, some with a file system.

The capacity of a loop device can be taken away while it is used. A file system on it meets EIO on every block from one moment on, as on a drive
whose cable is out, and its file keeps what it held then. (A program that has the device itself open would meet ENOSPC.)
"""

import fcntl
import os
import stat
import struct
import subprocess

from .case import Skip

SET_STATUS_64, GET_STATUS_64 = 0x4C04, 0x4C05
STATUS_BYTES = 232  # struct loop_info64
SIZE_LIMIT_OFFSET = 32
PULLED_BYTES = 512
THROTTLES = "/sys/fs/cgroup/blkio"


class LoopDrive:
    """A file of a size as a block device, with a node of its own at `path`: nothing is there while it is away."""

    def __init__(self, context, path, size_bytes):
        if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
            raise Skip("needs root and loop devices")
        self.path, self.size_bytes = path, size_bytes
        self.file = path + ".img"
        self.device = None
        context.cleanup(self.detach)
        self.wipe()
        self.attach()

    def wipe(self):
        """Its file is as new."""
        with open(self.file, "wb") as file:
            file.truncate(self.size_bytes)

    def attach(self):
        """Makes the device, and its node."""
        self.device = run("losetup", "--find", "--show", self.file).strip()
        os.mknod(self.path, stat.S_IFBLK | 0o600, os.stat(self.device).st_rdev)

    def detach(self):
        """Takes the device away, which nobody may use any more; its file stays."""
        if self.device:
            self.plug()
            run("losetup", "--detach", self.device)
            os.unlink(self.path)
            self.device = None

    def pull(self):
        """All I/O of a file system on it fails from now on."""
        self._limit(PULLED_BYTES)

    def plug(self):
        """It is as it was when it was pulled."""
        self._limit(0)

    def _limit(self, size_bytes):
        with open(self.device, "rb") as file:
            status = bytearray(STATUS_BYTES)
            fcntl.ioctl(file, GET_STATUS_64, status)
            struct.pack_into("<Q", status, SIZE_LIMIT_OFFSET, size_bytes)
            fcntl.ioctl(file, SET_STATUS_64, bytes(status))


class MountedDrive:
    """A directory on an ext4 of its own on such a device: nothing is at `path` while it is away."""

    def __init__(self, context, mount, size_bytes):
        self.mount, self.path = mount, os.path.join(mount, "drive")
        os.makedirs(mount)
        self.loop = LoopDrive(context, mount + ".dev", size_bytes)
        self.is_mounted = False
        context.cleanup(self.detach)
        self._format()

    def _format(self):
        run("mkfs.ext4", "-q", "-F", "-E", "nodiscard", self.loop.path)
        self.attach()
        os.makedirs(self.path)

    def attach(self):
        """Mounts it, as it was when it was pulled if it was."""
        if not self.is_mounted:
            self.loop.plug()
            run("mount", "-o", "errors=remount-ro", self.loop.path, self.mount)
            self.is_mounted = True

    def detach(self):
        """Unmounts it."""
        if self.is_mounted:
            run("umount", "--lazy", self.mount)
            self.is_mounted = False

    def pull(self):
        """All I/O on it fails from now on."""
        self.loop.pull()

    def replace(self):
        """An empty drive is at its place."""
        self.detach()
        self.loop.detach()
        self.loop.wipe()
        self.loop.attach()
        self._format()

    @property
    def number(self):
        """Major and minor number of its device."""
        return device_number(self.loop.device)


class Throttle:
    """A control group whose processes may do so many operations a second on a device."""

    def __init__(self, context, name):
        if not os.path.exists(os.path.join(THROTTLES, "cgroup.procs")):
            raise Skip("no control groups for block devices (version 1)")
        self.directory = os.path.join(THROTTLES, f"{name}-{os.getpid()}")
        os.makedirs(self.directory, exist_ok=True)
        context.cleanup(lambda: os.rmdir(self.directory))

    def add(self, pid):
        """Takes a process with its threads in."""
        self._write("cgroup.procs", str(pid))

    def limit(self, number, per_s):
        """So many operations a second of each kind; 0: as many as it can."""
        for direction in ("read", "write"):
            self._write(f"blkio.throttle.{direction}_iops_device", f"{number} {per_s}")

    def _write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write(text)


def device_number(path):
    """Major and minor number, as control groups name a device."""
    device = os.stat(path).st_rdev
    return f"{os.major(device)}:{os.minor(device)}"


def run(*command):
    """Runs a program that has to succeed; what it printed."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
