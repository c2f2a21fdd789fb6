"""A real Ceph cluster with a pool of Varve on it, and the daemons that join that pool."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import nbd

from . import server as servers
from .case import Failure
from .gateway import owner_key

CLUSTER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ceph-cluster")
# Between the end of a node and the first answer of the next one. 10 s is what is promised, of machines that do nothing else.
TAKEOVER_S_MAX = 15


class Ceph:
    """A cluster of `data` + `parity` OSDs, with the pools `data`, erasure-coded, and `meta`, of `copies`."""

    def __init__(self, context, data, parity, copies, address="127.0.0.1"):
        self.context = context
        self.directory = context.path("ceph")
        context.cleanup(lambda: subprocess.run([CLUSTER, "down", self.directory], check=False))
        environment = {**os.environ, "ADDRESS": address, "OSD_MEMORY_MIB": "256"}
        printed = context.run(CLUSTER, "up", self.directory, str(data), str(parity), str(copies), env=environment)
        self.config = printed.strip().splitlines()[-1]
        self.osd_count = data + parity

    @property
    def pools(self):
        """The arguments that name the two pools."""
        return ["--rados", self.config, "--data-pool", "data", "--meta-pool", "meta"]

    def osd(self, number):
        """Process id of an OSD."""
        with open(os.path.join(self.directory, "run", f"osd.{number}.pid"), encoding="utf-8") as file:
            return int(file.read())

    def signal(self, number, what):
        """Sends an OSD a signal."""
        os.kill(self.osd(number), what)

    def kill_osd(self, number):
        """`kill -9` of an OSD; returns when the process is gone."""
        pid = self.osd(number)
        os.kill(pid, signal.SIGKILL)
        self.context.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), f"OSD {number} ends")

    def start_osd(self, number):
        """Starts an OSD that ended."""
        self.context.run(CLUSTER, "osd", self.directory, str(number))

    def wait_healthy(self):
        """Waits until all OSDs are up and all data is where it should be."""
        self.context.run(CLUSTER, "wait", self.directory)

    def rados(self, pool, *arguments):
        """Runs the tool `rados` on a pool; returns what it printed."""
        command = ["rados", "-c", self.config, "--name", "client.varve", "-p", pool, *arguments]
        return self.context.run(*command, env={**os.environ, "CEPH_ARGS": ""})

    def names(self, pool):
        """Names of the objects of a pool of RADOS, sorted."""
        return sorted(self.rados(pool, "ls").split())


class Node(servers.Varve):
    """`varve serve` of a pool on RADOS, as one of its nodes, with NBD on a Unix socket and S3 on TCP; `prefix` starts it elsewhere."""

    def __init__(self, context, name, address="127.0.0.1", prefix=()):
        directory = context.path(name)
        os.makedirs(directory)
        settings = {"memory.budget": '"128MiB"', "checkpoint.entries_max": "10000", "rados.join": "true", "s3.listen": f'"{address}:0"'}
        super().__init__(directory, 0, settings)
        self.context = context
        self.name = name
        self.prefix = list(prefix)
        context.cleanup(self.kill)

    def command(self):
        """The command that serves."""
        return [*self.prefix, self.binary, "serve", "--data", self.directory, "--nbd", f"unix:{self.socket}"]

    def spawn(self):
        """Starts the process with a log of its own."""
        open(self.log_path, "w", encoding="utf-8").close()
        super().spawn()

    def log(self):
        """What this life of the daemon printed."""
        with open(self.log_path, errors="replace", encoding="utf-8") as file:
            return file.read()

    def stand_by(self):
        """Starts, and waits until it says that another one serves."""
        self.spawn()
        self.context.wait_for(lambda: "stands by" in self.log() or not self.alive(), f"{self.name} stands by")
        self.context.check(self.alive(), f"{self.name} ended\n{self.log_tail()}")

    @property
    def endpoint(self):
        """Where it serves S3; none before it does."""
        found = re.findall(r"S3:\s+(\S+)", self.log())
        return found[-1] if found else None

    def key(self):
        """Access key and secret key, which the first start of a pool writes to a file."""
        return owner_key(self.directory)

    def checked(self, *options, expect=0):
        """What `varve check` of the pool finds, which nobody serves."""
        command = [self.binary, "--data", self.directory, "check", "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        self.context.check(done.returncode == expect, f"`varve check` ends with {done.returncode}\n{done.stdout[-4000:]}{done.stderr}")
        return json.loads(done.stdout)

    def serves(self):
        """Whether it has said that it serves the pool: one that stands by answers too, for whoever does."""
        return "serves pool" in self.log()

    def answers(self, volume):
        """Whether it serves the pool, and answers a read of the volume, right now."""
        return self.alive() and self.serves() and self.accepts() and self.read(volume) is not None

    def read(self, volume, offset=0, timeout_s=2):
        """A sector of a volume; none where no answer comes in time."""
        return self._ask(volume, timeout_s, lambda handle, buffer: handle.aio_pread(buffer, offset))

    def write(self, volume, data, offset=0, timeout_s=2):
        """Writes a sector of a volume; none where it is not acknowledged in time."""
        return self._ask(volume, timeout_s, lambda handle, buffer: handle.aio_pwrite(buffer, offset), data)

    def _ask(self, volume, timeout_s, command, data=bytes(512)):
        deadline = time.monotonic() + timeout_s
        # A server that greets may still wait with the rest of the handshake: libnbd's own connecting would wait for ever.
        handle = nbd.NBD()
        try:
            handle.aio_connect_uri(self.uri(volume))
            while not handle.aio_is_ready():
                if not turn(handle, deadline):
                    return None
            buffer = nbd.Buffer.from_bytearray(bytearray(data))
            cookie = command(handle, buffer)
            while not handle.aio_command_completed(cookie):
                if not turn(handle, deadline):
                    return None
            return bytes(buffer.to_bytearray())
        except nbd.Error:
            return None


def turn(handle, deadline):
    """Lets a connection go on; says whether there is time left."""
    left = deadline - time.monotonic()
    return left > 0 and handle.poll(max(1, min(100, int(left * 1000)))) >= 0


def make_pool(context, ceph, nodes, *options):
    """A pool that all nodes know; the first one serves it, the others stand by. Returns the pool's identity."""
    made = json.loads(nodes[0].cli("pool", "create", *ceph.pools, "--shards", "2", "--lane-size", "16MiB", *options, "--json"))
    for node in nodes[1:]:
        node.cli("pool", "attach", *ceph.pools, "--pool", made["id"])
    nodes[0].spawn()
    context.wait_for(lambda: nodes[0].endpoint and nodes[0].accepts() or not nodes[0].alive(), "the first node serves", seconds=60)
    context.check(nodes[0].alive(), f"the first node ended\n{nodes[0].log_tail()}")
    for node in nodes[1:]:
        shutil.copy(os.path.join(nodes[0].directory, "s3.key"), node.directory)  # It belongs to the pool's users.
        node.stand_by()
    return made["id"]


def next_of(context, nodes, volume, begin, seconds=60):
    """Whoever serves next of `nodes`, and how long after `begin` it answered."""
    while True:
        for node in nodes:
            if node.answers(volume):
                return node, time.monotonic() - begin
        if time.monotonic() - begin > seconds:
            raise Failure(f"no other node served within {seconds} s\n" + "\n".join(node.log_tail() for node in nodes))
        time.sleep(0.02)


def ended_of_itself(context, node, seconds=30):
    """A node that was given up ends, and says why."""
    try:
        code = node.process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Failure(f"a node that was given up goes on\n{node.log_tail()}") from None
    told = node.log_tail()
    context.check(code == 1 and ("taken shard" in told or "given this one up" in told), f"a node that was given up ends with {code}: {told}")
