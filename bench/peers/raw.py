"""A file that was written in full before, on the disk that is measured: what the disk itself does. Other peers serve the same file."""

import os

from harness import fio

from .peer import Peer

DIRECT = ("--ioengine=io_uring", "--direct=1")


def shared_file(site):
    """The file of a site, written in full, so that the file system allocates nothing later; its path. It goes with the site's directory."""
    path = os.path.join(site.directory, "raw.file")
    if not os.path.exists(path):
        job = fio.Job([f"--filename={path}", *DIRECT, "--refill_buffers=1"], rw="write", block_bytes=4 << 20, depth=4, size_bytes=site.volume_bytes)
        fio.run(job)
        os.sync()
    return path


class Raw(Peer):
    """io_uring and O_DIRECT."""

    name = "raw"
    title = "raw file"
    syncs = False
    durability = "no: what was answered may still be in the disk's cache"
    packages = ("fio",)
    programs = ("fio",)

    @classmethod
    def version(cls, site):
        return f"{fio.version()}, io_uring, O_DIRECT"

    def start(self):
        shared_file(self.site)

    def options(self):
        return [f"--filename={shared_file(self.site)}", *DIRECT]


class RawSync(Raw):
    """The same file, opened with O_DSYNC."""

    name = "raw-sync"
    title = "raw file, O_DSYNC"
    syncs = True
    durability = "yes: each write is followed by a flush of the disk"
    writes_only = True

    @classmethod
    def version(cls, site):
        return f"{fio.version()}, io_uring, O_DIRECT, O_DSYNC"

    def options(self):
        return [*super().options(), "--sync=dsync"]
