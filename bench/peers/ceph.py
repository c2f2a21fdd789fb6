"""Ceph on loopback (`tests/support/ceph-cluster`, OSDs on files that were written in full first): librbd, rados bench, the S3 gateway, and Varve
with a pool on it."""

import json
import os
import subprocess

from harness import client

from .peer import GIB, Absent, Peer, PeerFailed, S3Peer, first_line
from .registry import REPOSITORY
from .varve import Varve, VarveS3

RGW_DATA_POOL = "default.rgw.buckets.data"
SCRIPT = os.path.join(REPOSITORY, "tests", "support", "ceph-cluster")
PACKAGES = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-common", "fio")
PROGRAMS = ("ceph-osd", "ceph-mon", "ceph-mgr", "ceph", "rbd", "rados", "ceph-authtool", "monmaptool")
OSD_MEMORY_MIB = 1024
OSD_BESIDE_BYTES = 3 * GIB  # An OSD that is full ends itself: its own data, and what `rados bench` put and nobody has deleted yet.


class Cluster:
    """K + M OSDs with the pools `rbd` (COPIES copies) and, with M, `data` (K+M) and `meta`. Peers on one site share it; the last one ends it."""

    running = {}

    def __init__(self, directory, shape, osd_mib, memory_mib):
        self.directory = directory
        self.users = 0
        self.environment = {"CEPH_CONF": os.path.join(directory, "ceph.conf"), "CEPH_ARGS": "", "OSD_FILL": "1", "RBD": "1", "OSD_MIB": str(osd_mib),
                            "OSD_MEMORY_MIB": str(memory_mib)}
        self.call(SCRIPT, "up", directory, *map(str, shape))
        self.pids = [int(pid) for pid in self.call(SCRIPT, "pids", directory).split()]

    @classmethod
    def of(cls, site, shape, osd_mib, memory_mib=OSD_MEMORY_MIB):
        """The cluster of a site, started by the first who asks."""
        directory = os.path.join(site.directory, "ceph")
        if directory not in cls.running:
            try:
                cls.running[directory] = cls(directory, shape, osd_mib, memory_mib)
            except BaseException:
                subprocess.run([SCRIPT, "down", directory], check=False)
                raise
        cls.running[directory].users += 1
        return cls.running[directory]

    def leave(self):
        """Ends it with its last user."""
        self.users -= 1
        if self.users == 0:
            del Cluster.running[self.directory]
            subprocess.run([SCRIPT, "down", self.directory], check=False)

    def call(self, *command):
        """Runs one of Ceph's programs; returns what it printed."""
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment}, check=False)
        if done.returncode != 0:
            raise PeerFailed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout


class CephPeer(Peer):
    """Somebody on a cluster."""

    packages, programs = PACKAGES, PROGRAMS
    shape = (4, 2, 3)
    syncs = True
    cluster = None
    room = 3 * 3 + 3  # Bytes of all OSDs for each of a volume: four volumes with copies or parity, and room beside.

    @classmethod
    def version(cls, site):
        return first_line("ceph", "--version").partition(" (")[0]

    def join(self):
        """Starts the cluster unless another one did."""
        osds = sum(self.shape[:2])
        memory = OSD_MEMORY_MIB // 2 if self.shape[1] else OSD_MEMORY_MIB + (self.volume_bytes >> 22)
        self.cluster = Cluster.of(self.site, self.shape, (self.room * self.volume_bytes // osds + OSD_BESIDE_BYTES) >> 20, memory)
        self.environment = self.cluster.environment

    def pids(self):
        return [*super().pids(), *self.cluster.pids]

    def stop(self):
        super().stop()
        if self.cluster:
            self.cluster.leave()
            self.cluster = None


class Rbd(CephPeer):
    """librbd, its cache off, one copy on one OSD."""

    name = "rbd"
    title = "Ceph RBD, one OSD, one copy"
    durability = "yes: BlueStore's log, one copy"
    shape, room = (1, 0, 1), 2
    image_options = ()

    @classmethod
    def install(cls, site):
        super().install(site)
        if "rbd" not in subprocess.run(["fio", "--enghelp"], capture_output=True, text=True, check=False).stdout.split():
            raise Absent("fio has no rbd engine")

    def start(self):
        self.join()
        self.call("rbd", "create", self.name, "--size", f"{self.volume_bytes >> 20}M", *self.image_options)
        self.fill()

    def options(self):
        return ["--ioengine=rbd", "--clientname=admin", "--pool=rbd", f"--rbdname={self.name}"]


class Rbd3(Rbd):
    """Three copies on six OSDs."""

    name = "rbd-3"
    title = "Ceph RBD, 3 copies"
    durability = "yes: in BlueStore's log of three OSDs"
    shape, room = CephPeer.shape, CephPeer.room


class RbdEc(Rbd3):
    """Data erasure-coded, 4+2, with overwrites."""

    name = "rbd-ec"
    title = "Ceph RBD, EC 4+2"
    durability = "yes: in BlueStore's log of six OSDs"
    image_options = ("--data-pool", "rbd-data")


class RadosBench(CephPeer):
    """`rados bench`: whole new objects of the block's size, which no volume could do with."""

    name = "rados-3"
    title = "rados bench, 3 copies"
    durability = "yes: in BlueStore's log of three OSDs"
    pool = "rbd"
    writes_only = True

    def start(self):
        self.join()

    def load(self, point, seconds=0, io_bytes=0, **changes):
        seconds = max(1, round(changes.get("seconds", seconds)))
        command = ["rados", "bench", "-p", self.pool, str(seconds), "write", "-b", str(point["block_bytes"]), "-t", str(point["depth"]),
                   "--no-cleanup", "--format", "json", "--run-name", self.name]
        code, printed, complaint, cpu_s = client.run(command, env={**os.environ, **self.environment})
        if code != 0:
            raise PeerFailed(f"{' '.join(command)}: exit {code}\n{complaint[-2000:]}")
        told = json.loads(printed[printed.index("{"):])
        ios = int(told["total_writes_made"])
        elapsed = float(told["total_time_run"])
        return {"command": " ".join(command), "ios": ios, "client_bytes": ios * point["block_bytes"], "seconds": elapsed, "iops": ios / elapsed,
                "mib_s": ios * point["block_bytes"] / elapsed / (1 << 20), "mean_us": float(told["average_latency"]) * 1e6,
                "max_us": float(told["max_latency"]) * 1e6, "client_cpu_s": cpu_s}

    def after_sample(self):
        self.call("rados", "-p", self.pool, "cleanup", "--prefix", "benchmark_data")


class RadosBenchEc(RadosBench):
    """Erasure-coded, 4+2."""

    name = "rados-ec"
    title = "rados bench, EC 4+2"
    durability = "yes: in BlueStore's log of six OSDs"
    pool = "data"


class VarveRados(CephPeer, Varve):
    """Varve's pool on the same cluster: segments in the erasure-coded pool, journals in three copies."""

    name = "varve-rados"
    title = "Varve on RADOS, EC 4+2"
    durability = "yes: the journal in three copies, or, of large writes, the segment in EC 4+2"
    packages, programs = PACKAGES, PROGRAMS
    journal = "rados"

    @classmethod
    def version(cls, site):
        return Varve.version(site)

    def start(self):
        self.make_pool()
        self.serve()
        self.make_volume()

    def make_pool(self):
        """Makes the pool only."""
        self.join()
        os.makedirs(self.directory)
        self.cli("pool", "create", "--rados", self.environment["CEPH_CONF"], "--data-pool", "data", "--meta-pool", "meta", "--journal",
                 self.journal.format(self.directory), "--size", str(2 * self.volume_bytes + GIB // 2), "--shards", "1", "--lane-size", "64MiB")


class VarveRadosLocal(VarveRados):
    """As that, with its journal on a file beside the OSDs'."""

    name = "varve-rados-local"
    title = "Varve on RADOS, EC 4+2, local journal"
    durability = "yes: the journal in one copy on the machine's disk until the segment is in EC 4+2"
    journal = "local:{}/journal"


class Rgw(CephPeer, S3Peer):
    """Ceph's gateway over one OSD with one copy; tcp_nodelay on, without which small GETs wait 40 ms for nothing."""

    name = "rgw"
    title = "Ceph RGW, one OSD, one copy"
    durability = "yes: BlueStore's log, one copy"
    shape, room = (1, 0, 1), 1
    packages, programs = (*PACKAGES, "radosgw"), (*PROGRAMS, "radosgw", "radosgw-admin")

    def start(self):
        self.join()
        self.make_pools()
        user = self.call("radosgw-admin", "-n", "client.admin", "user", "create", "--uid", "bench", "--display-name", "bench",
                         "--access-key", self.access_key, "--secret-key", self.secret_key)
        if self.access_key not in user:
            raise PeerFailed(f"rgw: no user\n{user[-2000:]}")
        self.spawn(["radosgw", "-f", "-n", "client.admin", "--rgw-frontends", f"beast endpoint={self.address} tcp_nodelay=1"])
        self.wait_for_address()

    def make_pools(self):
        """Makes pools that are not to be as the gateway makes them."""


class RgwEc(Rgw):
    """The gateway on six OSDs, its data erasure-coded."""

    name = "rgw-ec"
    title = "Ceph RGW, EC 4+2"
    durability = "yes: in BlueStore's log of six OSDs, the bucket's index of three"
    shape, room = CephPeer.shape, 3

    def make_pools(self):
        self.call("ceph", "osd", "pool", "create", RGW_DATA_POOL, "16", "16", "erasure", "data")
        self.call("ceph", "osd", "pool", "application", "enable", RGW_DATA_POOL, "rgw")


class VarveRadosS3(VarveRados, S3Peer):
    """Buckets of a pool on such a cluster."""

    name = "varve-rados-s3"
    title = "Varve S3 on RADOS, EC 4+2"
    room = 3
    take_key = VarveS3.take_key

    def __init__(self, site):
        VarveRados.__init__(self, site)
        S3Peer.__init__(self, site)

    def start(self):
        self.make_pool()
        self.serve("--s3", self.address)
        self.take_key()
