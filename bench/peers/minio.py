"""MinIO on one directory."""

import os

from .peer import S3Peer, free_port
from .registry import go_program


class Minio(S3Peer):
    """Built from the Go module at a pinned version."""

    name = "minio"
    title = "MinIO"
    syncs = True
    durability = "contents: one fdatasync an object; the directory entry rests on the file system's journal"
    module, pinned = "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c"

    @classmethod
    def install(cls, site):
        cls.program = go_program(site, cls.module, cls.pinned)

    @classmethod
    def version(cls, site):
        return f"minio {cls.pinned}"

    def start(self):
        self.environment = {"MINIO_ROOT_USER": self.access_key, "MINIO_ROOT_PASSWORD": self.secret_key}
        console = f"127.0.0.1:{free_port()}"
        self.spawn([self.program, "server", "--quiet", "--address", self.address, "--console-address", console, os.path.join(self.directory, "data")])
        self.wait_for_address()
