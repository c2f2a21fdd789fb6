"""`varve serve` on a file-backed drive: one volume over NBD, or buckets over S3."""

import json
import os
import re
import socket

from harness import machine

from .peer import GIB, NbdPeer, PeerFailed, S3Peer, first_line

DEFAULT_BUDGET_BYTES = GIB // 2
S3_BUDGET_MIB = 1024  # beside its cache
PARTIAL_WRITES = "varve_redundancy_partial_stripe_writes_total"
CACHE_PART = 4  # Volumes are so many times the read caches of their servers.


class Varve(NbdPeer):
    """One volume over a unix socket. A read cache of a quarter of the volume comes on top of the default budget of memory."""

    name = "varve"
    title = "Varve"
    syncs = True
    durability = "yes: the answer follows the journal's durable write; there is no other mode"
    volume = "bench"
    budget_bytes = DEFAULT_BUDGET_BYTES

    def __init__(self, site, drive_bytes=None, volume_options=(), serve_options=(), has_read_cache=True):
        super().__init__(site)
        self.drive_bytes = drive_bytes or 2 * site.volume_bytes
        self.volume_options, self.serve_options = volume_options, serve_options
        self.read_cache_bytes = site.volume_bytes // CACHE_PART if has_read_cache else 0

    @classmethod
    def version(cls, site):
        return first_line(site.varve, "--version")

    @classmethod
    def install(cls, site):
        if cls.programs:
            super().install(site)

    def start(self):
        self.start_empty()
        self.make_volume()

    def start_empty(self):
        """Makes the pool only."""
        os.makedirs(self.directory)
        self.serve("--drive", f"{self.directory}/drive={self.drive_bytes}", "--s3", "none")

    def serve(self, *options):
        """Starts the daemon."""
        path = os.path.join(self.directory, "varve.toml")
        with open(path, "w") as file:
            file.write(f'[memory]\nbudget = "{self.budget_bytes + self.read_cache_bytes >> 20}MiB"\nread_cache = "{self.read_cache_bytes >> 20}MiB"\n')
        self.spawn([self.site.varve, "serve", "--config", path, "--data", self.directory, "--nbd", f"unix:{self.socket()}", *options, *self.serve_options])
        self.wait_for(lambda: os.path.exists(self.socket()), "its socket")

    def make_volume(self):
        """Makes the volume and fills it."""
        self.create_volume()
        self.fill()

    def create_volume(self):
        """Makes the volume."""
        self.cli("volume", "create", self.volume, "--size", str(self.volume_bytes), *self.volume_options)

    def capacity_bytes(self):
        """What the pool has room for."""
        return json.loads(self.cli("pool", "show", "--json"))["capacity_bytes"]

    def cli(self, *arguments):
        """Runs one `varve` command against the daemon; returns what it prints."""
        return self.call(self.site.varve, "--data", self.directory, *arguments)


class VarveNone(Varve):
    """As `Varve`, under the name that it has beside pools with redundancy."""

    name = "varve-none"
    title = "Varve, one file, none"

    def __init__(self, site):
        super().__init__(site, drive_bytes=4 * site.volume_bytes)


class VarveMirror(Varve):
    """Two copies on three files of the same disk."""

    name = "varve-mirror-2"
    title = "Varve, mirror:2 on 3 files"
    protect, files, file_share = "mirror:2", 3, 4.0  # Of the volume's size each, so that all pools are as full: a quarter.

    def start_empty(self):
        os.makedirs(self.directory)
        size = int(self.site.volume_bytes * self.file_share)
        drives = [word for number in range(self.files) for word in ("--drive", f"{self.directory}/drive-{number}={size}")]
        self.cli("pool", "create", *drives, "--protect", self.protect, "--yes", "--json")
        self.serve("--s3", "none")

    def after_sample(self):
        """No stripe was ever written in part."""
        counted = [line for line in self.metrics().splitlines() if line.startswith(PARTIAL_WRITES)]
        if not counted or any(float(line.split()[-1]) for line in counted):
            raise PeerFailed(f"stripes were written in part: {counted}")

    def metrics(self):
        """What the daemon exports, as text."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(os.path.join(self.directory, "admin.sock"))
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: varve\r\n\r\n")
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()


class VarveEc(VarveMirror):
    """Four strips of data and two of parity on six files of the same disk."""

    name = "varve-ec-4+2"
    title = "Varve, ec:4+2 on 6 files"
    protect, files, file_share = "ec:4+2", 6, 1.1


class VarveS3(S3Peer):
    """Buckets. Half of the machine's memory is its cache: the others have the page cache of all of it."""

    name = "varve-s3"
    title = "Varve S3"
    syncs = True
    durability = Varve.durability
    cache_mib = machine.memory_mib() // 2

    @classmethod
    def install(cls, site):
        """It is built here."""

    version = Varve.version

    def start(self):
        os.makedirs(self.directory)
        self.serve(self.cache_mib)
        self.take_key()

    def take_key(self):
        """Waits for the key that the first start writes to a file."""
        self.wait_for(lambda: "S3:" in self.log() and "key of `owner`" in self.log(), "S3")
        with open(re.search(r"key of `owner`: (.+)", self.log()).group(1)) as file:
            text = file.read()
        self.access_key, self.secret_key = (re.search(rf"{name} = (\S+)", text).group(1)
                                            for name in ("aws_access_key_id", "aws_secret_access_key"))

    def serve(self, cache_mib):
        """Starts the daemon with a cache of that many MiB for bodies."""
        path = os.path.join(self.directory, "varve.toml")
        with open(path, "w") as file:
            file.write(f'[memory]\nbudget = "{cache_mib + S3_BUDGET_MIB}MiB"\nread_cache = "{cache_mib}MiB"\n')
        self.spawn([self.site.varve, "serve", "--config", path, "--data", self.directory, "--nbd", f"unix:{self.directory}/nbd.sock",
                    "--s3", self.address, "--drive", f"{self.directory}/drive={self.site.volume_bytes}"])

    def start_without_cache(self):
        """Starts it again without the cache for bodies: reads go to the drive."""
        machine.end(self.process)
        self.serve(0)
        self.wait_for_address()
