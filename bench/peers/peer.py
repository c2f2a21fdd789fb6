"""What all peers share: they are installed from public registries, started on a socket of their own, loaded, and ended by their process ids."""

import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass

from harness import fio, machine

GIB = 1 << 30
START_S_MAX = 60
FILL_BLOCK_BYTES = 4 << 20


class Absent(Exception):
    """A peer cannot be had here; the text says why."""


class PeerFailed(Exception):
    """A peer could not be started or told what to do."""


@dataclass
class Site:
    """What a peer is given: a directory on the disk that is measured, sizes, and the programs of this project."""

    directory: str
    volume_bytes: int
    varve: str = None
    s3_load: str = None
    connections: int = 32
    may_install: bool = False


class Peer:
    """One system under test. `syncs` tells whether what it answered is on the disk, `durability` in words what it does before it answers."""

    name = None
    title = None
    syncs = None
    durability = None
    packages = ()  # of Debian
    programs = ()  # that have to be found then
    writes_only = False  # Another peer reads in the same way.

    def __init__(self, site):
        self.site = site
        self.directory = os.path.join(site.directory, self.name)
        self.volume_bytes = site.volume_bytes
        self.process = None
        self.environment = {}

    @classmethod
    def install(cls, site):
        """Gets what it needs, if `site` lets it. Raises Absent."""
        if missing(cls.programs) and site.may_install:
            apt_install(cls.packages)
        if missing(cls.programs):
            raise Absent(f"{', '.join(missing(cls.programs))} not installed (Debian: {' '.join(cls.packages)})")

    @classmethod
    def version(cls, site):
        """What it says it is."""
        return first_line(cls.programs[0], "--version")

    def start(self):
        """Starts it, with its volume filled or its store empty."""
        raise NotImplementedError

    def options(self):
        """fio's options for it."""
        raise NotImplementedError

    def load(self, point, seconds=0, io_bytes=0, **changes):
        """Puts a point's load on it; returns what was measured."""
        job = fio.Job(target_options=self.options(), rw=point["rw"], block_bytes=point["block_bytes"], depth=point["depth"],
                      size_bytes=self.volume_bytes, seconds=seconds, io_bytes=io_bytes, environment=self.environment,
                      options=point.get("fio_options", ()))
        return fio.run(fio.Job(**{**job.__dict__, **changes}))

    def fill(self, options=()):
        """Writes the whole volume once, sequentially, with incompressible data unless `options` of fio say otherwise."""
        fio.run(fio.Job(target_options=[*self.options(), "--refill_buffers=1", *options], rw="write", block_bytes=FILL_BLOCK_BYTES, depth=4,
                        size_bytes=self.volume_bytes, environment=self.environment))

    def after_sample(self):
        """Removes what a sample left behind."""

    def pids(self):
        """The processes whose CPU time and writes count as the server's."""
        return [self.process.pid] if self.process else []

    def stop(self):
        """Ends it and removes its data."""
        machine.end(self.process)
        self.process = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def spawn(self, command):
        """Starts its process, out of reach of the terminal's Ctrl-C; what it prints goes to a file beside its data."""
        os.makedirs(self.directory, exist_ok=True)
        with open(self.log_path(), "w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.directory, env={**os.environ, **self.environment},
                                            start_new_session=True)

    def wait_for(self, condition, what):
        """Polls until the condition holds."""
        deadline = time.monotonic() + START_S_MAX
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise PeerFailed(f"{self.name}: {what} did not come\n{self.log()[-2000:]}")
            time.sleep(0.05)

    def call(self, *command):
        """Runs a program to its end; returns what it printed."""
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment}, check=False)
        if done.returncode != 0:
            raise PeerFailed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def log_path(self):
        """Where the process prints to."""
        return os.path.join(self.directory, "server.log")

    def log(self):
        """What the process has printed."""
        with open(self.log_path(), errors="replace") as file:
            return file.read()


class NbdPeer(Peer):
    """A server of one NBD export on a unix socket."""

    volume = ""

    def socket(self):
        """Path of the socket."""
        return os.path.join(self.directory, "nbd.sock")

    def uri(self):
        """NBD URI of the export."""
        return f"nbd+unix:///{self.volume}?socket={self.socket()}"

    def options(self):
        return ["--ioengine=nbd", f"--uri={self.uri()}"]


class S3Peer(Peer):
    """A server of S3 with an empty store and one key."""

    access_key = "VARVEBENCH0000000000"
    secret_key = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, site):
        super().__init__(site)
        self.address = f"127.0.0.1:{free_port()}"

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


def missing(programs):
    """Those that are not in PATH."""
    return [program for program in programs if not shutil.which(program)]


def apt_install(packages):
    """Installs Debian packages. Raises Absent."""
    if os.geteuid() != 0:
        raise Absent(f"not installed, and only root can (apt-get install {' '.join(packages)})")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", "--no-install-recommends", *packages]):
        done = subprocess.run(command, capture_output=True, text=True, env=quiet, check=False)
        if done.returncode != 0:
            raise Absent(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")


def first_line(*command):
    """The first line that a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return next(iter((done.stdout or done.stderr).strip().splitlines()), "unknown")


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
