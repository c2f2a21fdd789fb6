"""A volume as a block device of this machine: nbdfuse, a loop device, a mount."""

import os
import subprocess
import time

from .case import Failure, end


class Device:
    """A loop device over nbdfuse over a volume; `close` takes all of it down."""

    def __init__(self, context, uri):
        self.context = context
        self.mount_point = context.path("mnt")
        self._fuse_directory = context.path("fuse")
        self.loop = None
        self.mounted = False
        os.makedirs(self.mount_point, exist_ok=True)
        os.makedirs(self._fuse_directory, exist_ok=True)
        file = os.path.join(self._fuse_directory, "nbd")
        self._fuse = subprocess.Popen(["nbdfuse", file, uri], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            context.wait_for(lambda: os.path.exists(file) or self._fuse.poll() is not None, "nbdfuse")
            self.loop = context.run("losetup", "-f", "--show", file).strip()
        except Failure:
            self.close()
            raise
        context.cleanup(self.close)

    def mount(self, *options):
        """Mounts what is on the device."""
        self.context.run("mount", *options, self.loop, self.mount_point)
        self.mounted = True

    def unmount(self):
        """Unmounts; a file system whose device died unmounts as well."""
        if self.mounted:
            self._until_done("umount", self.mount_point)
            self.mounted = False

    def close(self):
        """Unmounts, frees the loop device and ends nbdfuse."""
        self.unmount()
        if self.loop:
            subprocess.run(["losetup", "-d", self.loop], check=False)
            self.loop = None
        if self._fuse:
            subprocess.run(["fusermount3", "-u", self._fuse_directory], check=False, stderr=subprocess.DEVNULL)
            try:
                self._fuse.wait(timeout=10)
            except subprocess.TimeoutExpired:
                end(self._fuse)
            self._fuse = None

    def _until_done(self, *command):
        for _ in range(50):
            if subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.1)
        raise Failure(f"{' '.join(command)}: still busy after 5 s")
