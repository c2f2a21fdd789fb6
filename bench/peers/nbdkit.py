"""nbdkit's file plugin on a raw file, with each write flushed, and as it comes."""

import os

from .peer import NbdPeer
from .raw import shared_file


class Nbdkit(NbdPeer):
    """The `fua` filter makes it promise for each write what Varve promises."""

    name = "nbdkit"
    title = "nbdkit file, fuamode=force"
    syncs = True
    durability = "yes: each write is followed by fdatasync (--filter=fua fuamode=force); reads come from the page cache"
    packages = ("nbdkit", "fio")
    programs = ("nbdkit", "fio")
    filter = ("--filter=fua",)
    parameters = ("fuamode=force",)

    def start(self):
        self.spawn(["nbdkit", "-f", "-U", self.socket(), *self.filter, "file", shared_file(self.site), *self.parameters])
        self.wait_for(lambda: os.path.exists(self.socket()), "its socket")


class NbdkitCached(Nbdkit):
    """As it comes: writes are answered from the page cache."""

    name = "nbdkit-cached"
    title = "nbdkit file, page cache"
    syncs = False
    durability = "no: writes are answered from memory until a client flushes"
    filter = parameters = ()
    writes_only = True
