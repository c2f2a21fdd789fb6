"""The S3 servers that are compared: Varve, and others where their programs are found.

Each is one process (RGW: a cluster of one OSD) with one directory, nothing tuned beyond what its comment says. `syncs` tells
whether an answered PUT is on the disk, and `durability` in words what the server does before it answers; the runs' flushes are
measured beside.
"""

import os
import re
import shutil
import socket
import subprocess
import time

from . import machine

ACCESS_KEY = "VARVEBENCH0000000000"
SECRET_KEY = "0123456789abcdef0123456789abcdef01234567"
START_S_MAX = 60
OSD_MEMORY_BYTES = 1 << 30
BUDGET_MIB = 1024  # Of Varve, beside its cache.


class ServerFailed(Exception):
    """A server could not be started or told what to do."""


class Server:
    """A server with a new, empty store, and the keys that it takes."""

    name = None
    program = None
    syncs = None
    durability = None

    def __init__(self, directory, program, drive_bytes):
        self.directory = os.path.join(directory, self.name)
        self.program = program
        self.drive_bytes = drive_bytes
        self.address = f"127.0.0.1:{free_port()}"
        self.access_key, self.secret_key = ACCESS_KEY, SECRET_KEY
        self.process = None

    @classmethod
    def find(cls, directories):
        """Path of the server's program in one of `directories` or in PATH; none if it is not there."""
        return shutil.which(cls.program, path=os.pathsep.join([*directories, os.environ["PATH"]]))

    @classmethod
    def version(cls, program):
        """What the program says it is."""
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        return (done.stdout or done.stderr).strip().splitlines()[0]

    def start(self):
        """Starts it with an empty directory."""
        os.makedirs(self.directory)
        self.prepare()
        self.spawn(self.command())
        self.configure()

    def prepare(self):
        """Makes what the program reads when it starts."""

    def configure(self):
        """Tells the running server what its command line cannot."""
        self.wait_for_address()

    def command(self):
        """The command that serves."""
        raise NotImplementedError

    def environment(self):
        """Further variables of the command."""
        return {}

    def spawn(self, command):
        """Starts the process; what it prints goes to a file beside its data."""
        log = open(self.log_path(), "w")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory, env={**os.environ, **self.environment()})

    def pids(self):
        """The processes whose CPU time counts."""
        return [self.process.pid]

    def stop(self):
        """Ends it and removes its data."""
        machine.end(self.process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def wait_for(self, condition, what):
        """Polls until the condition holds."""
        deadline = time.monotonic() + START_S_MAX
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ServerFailed(f"{self.name}: {what} did not come\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def wait_for_address(self):
        """Polls until connections are accepted."""
        self.wait_for(self.accepts, self.address)

    def accepts(self):
        """Whether a connection is accepted now."""
        host, port = self.address.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def call(self, *command):
        """Runs a program to its end; returns what it printed."""
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment()}, check=False)
        if done.returncode != 0:
            raise ServerFailed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def log_path(self):
        """Where the process prints to."""
        return os.path.join(self.directory, "server.log")

    def log(self):
        """What the process has printed."""
        with open(self.log_path(), errors="replace") as file:
            return file.read()


class Varve(Server):
    """`varve serve --s3` on a file-backed drive. Half of the machine's memory is its cache: the others have the page cache of all of it."""

    name = "varve"
    program = "varve"
    syncs = True
    durability = "always: the answer follows the journal's write"

    def prepare(self):
        self.write_config(machine.memory_mib() // 2)

    def write_config(self, cache_mib):
        """A configuration with a cache of that many MiB for bodies."""
        with open(self.config(), "w") as file:
            file.write(f'[memory]\nbudget = "{cache_mib + BUDGET_MIB}MiB"\nread_cache = "{cache_mib}MiB"\n')

    def start_without_cache(self):
        """Starts it again, without the cache for bodies: reads go to the drive."""
        machine.end(self.process)
        self.write_config(0)
        self.spawn(self.command())
        self.wait_for_address()

    def config(self):
        """Path of its configuration."""
        return os.path.join(self.directory, "varve.toml")

    def command(self):
        return [self.program, "serve", "--config", self.config(), "--data", self.directory, "--nbd", f"unix:{self.directory}/nbd.sock",
                "--s3", self.address, "--drive", f"{self.directory}/drive={self.drive_bytes}"]

    def configure(self):
        self.wait_for(lambda: "S3:" in self.log() and "shown only now" in self.log(), "S3")
        self.access_key, self.secret_key = re.search(r"shown only now:\s+(\S+)\s+(\S+)", self.log()).groups()


class Minio(Server):
    """MinIO on one directory."""

    name = "minio"
    program = "minio"
    syncs = True
    durability = "contents: one fdatasync an object; the directory entry rests on the file system's journal"

    def command(self):
        console = f"127.0.0.1:{free_port()}"
        return [self.program, "server", "--quiet", "--address", self.address, "--console-address", console, os.path.join(self.directory, "data")]

    def environment(self):
        return {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}


class VersityGw(Server):
    """versitygw on a directory; keep-alive is off by default, and on here."""

    name = "versitygw"
    program = "versitygw"
    syncs = False
    durability = "never: no call that syncs"

    def prepare(self):
        os.makedirs(os.path.join(self.directory, "data"))

    def command(self):
        return [self.program, "--port", self.address, "--keep-alive", "--quiet", "posix", os.path.join(self.directory, "data")]

    def environment(self):
        return {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}


class Garage(Server):
    """Garage, one node, one copy, lmdb."""

    name = "garage"
    program = "garage"
    syncs = False
    durability = "not by default: meant to rest on three nodes"
    fsync = "false"

    def prepare(self):
        rpc = f"127.0.0.1:{free_port()}"
        lines = (f'metadata_dir = "{self.directory}/meta"', f'data_dir = "{self.directory}/data"', 'db_engine = "lmdb"',
                 f"metadata_fsync = {self.fsync}", f"data_fsync = {self.fsync}", "replication_factor = 1", f'rpc_bind_addr = "{rpc}"',
                 f'rpc_public_addr = "{rpc}"', f'rpc_secret = "{"5a" * 32}"', "[s3_api]", 's3_region = "us-east-1"',
                 f'api_bind_addr = "{self.address}"')
        with open(self.config(), "w") as file:
            file.write("\n".join(lines) + "\n")

    def config(self):
        """Path of its configuration."""
        return os.path.join(self.directory, "garage.toml")

    def command(self):
        return [self.program, "-c", self.config(), "server"]

    def environment(self):
        return {"RUST_LOG": "garage=warn"}

    def configure(self):
        self.wait_for_address()

        def tell(*arguments):
            return self.call(self.program, "-c", self.config(), *arguments)

        node = tell("node", "id", "-q").strip().split("@")[0]
        tell("layout", "assign", "-z", "z", "-c", f"{self.drive_bytes >> 30}G", node)
        tell("layout", "apply", "--version", "1")
        made = tell("key", "create", "bench")
        self.access_key = re.search(r"Key ID:\s+(\S+)", made).group(1)
        self.secret_key = re.search(r"Secret key:\s+(\S+)", made).group(1)
        tell("key", "allow", "--create-bucket", self.access_key)


class GarageFsync(Garage):
    """Garage with both of its fsync options."""

    name = "garage-fsync"
    syncs = True
    durability = "always: about 15 flushes an object"
    fsync = "true"


class Rgw(Server):
    """Ceph's gateway over one BlueStore OSD with one copy; tcp_nodelay on, without which small GETs wait 40 ms for nothing."""

    name = "rgw"
    program = "radosgw"
    syncs = True
    durability = "always: BlueStore's log"
    script = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ceph-one-osd")

    @classmethod
    def find(cls, directories):
        programs = ("radosgw", "radosgw-admin", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-authtool", "monmaptool")
        return shutil.which(cls.program) if all(shutil.which(program) for program in programs) else None

    def start(self):
        self.call(self.script, "up", self.directory, str(self.drive_bytes >> 30))
        user = self.call("radosgw-admin", "-n", "client.admin", "user", "create", "--uid", "bench", "--display-name", "bench",
                         "--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY)
        if ACCESS_KEY not in user:
            raise ServerFailed(f"rgw: no user\n{user}")
        self.spawn(["radosgw", "-f", "-n", "client.admin", "--rgw-frontends", f"beast endpoint={self.address} tcp_nodelay=1"])
        self.wait_for_address()

    def environment(self):
        return {"CEPH_CONF": os.path.join(self.directory, "ceph.conf"), "CEPH_ARGS": "", "OSD_MEMORY_BYTES": str(OSD_MEMORY_BYTES)}

    def pids(self):
        return [self.process.pid, *map(int, self.call(self.script, "pids", self.directory).split())]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        subprocess.run([self.script, "down", self.directory], check=False)


SERVERS = (Varve, Minio, Rgw, GarageFsync, VersityGw, Garage)


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
