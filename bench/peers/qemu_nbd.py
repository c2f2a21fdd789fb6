"""qemu-nbd on a raw file."""

import os

from .peer import NbdPeer
from .raw import shared_file


class QemuNbd(NbdPeer):
    """With `directsync` it promises for each write what Varve promises."""

    name = "qemu-nbd"
    title = "qemu-nbd, directsync"
    syncs = True
    durability = "yes: O_DIRECT, and each write is followed by a flush (--cache=directsync)"
    packages = ("qemu-utils", "fio")
    programs = ("qemu-nbd", "fio")

    def start(self):
        self.spawn(["qemu-nbd", "--persistent", "--shared=16", "--format=raw", "--cache=directsync", "--aio=io_uring", "-k", self.socket(),
                    shared_file(self.site)])
        self.wait_for(lambda: os.path.exists(self.socket()), "its socket")
