"""versitygw on a directory of the file system."""

import os

from .peer import S3Peer
from .registry import go_program


class VersityGw(S3Peer):
    """Built from the Go module at a pinned version; keep-alive is off by default, and on here."""

    name = "versitygw"
    title = "versitygw"
    syncs = False
    durability = "no: it makes no call that syncs"
    module, pinned = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"

    @classmethod
    def install(cls, site):
        cls.program = go_program(site, cls.module, cls.pinned)

    @classmethod
    def version(cls, site):
        return f"versitygw {cls.pinned}"

    def start(self):
        self.environment = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        data = os.path.join(self.directory, "data")
        os.makedirs(data)
        self.spawn([self.program, "--port", self.address, "--keep-alive", "--quiet", "posix", data])
        self.wait_for_address()
