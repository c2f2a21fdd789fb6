"""The systems under test: the raw disk, Varve over NBD, and librbd on one OSD.

A target is started once, prefilled, and measured by `fio` through the options it
names. `pids` are the server processes whose CPU and writes count.
"""

import json
import os
import shutil
import subprocess
import time

from . import fio, machine

FILL_BLOCK_BYTES = 4 << 20
GIB = 1 << 30
DEFAULT_BUDGET_BYTES = GIB // 2
DEFAULT_OSD_MEMORY_BYTES = GIB


class TargetFailed(Exception):
    """A target could not be started or told what to do."""


class Raw:
    """A pre-written file on the same file system, io_uring and O_DIRECT."""

    name = "raw"

    def __init__(self, directory, volume_bytes):
        self.path = os.path.join(directory, "raw.file")
        self.volume_bytes = volume_bytes
        self.environment = {}

    def start(self):
        """Writes the file in full, so that the file system allocates nothing later."""
        fill(self)
        os.sync()

    def options(self):
        """fio's options for this target."""
        return [f"--filename={self.path}", "--ioengine=io_uring", "--direct=1"]

    def pids(self):
        """No server: the kernel's share shows only in the whole machine's CPU."""
        return []

    def stop(self):
        """Removes the file."""
        if os.path.exists(self.path):
            os.unlink(self.path)


class Varve:
    """`varve serve` on a file-backed drive, one volume, NBD over a unix socket.

    With a `fill_share` the volume's size is that share of the pool's capacity, times what reduction is expected to save. A read cache
    comes on top of the default budget of memory.
    """

    name = "varve"
    volume = "bench"

    def __init__(self, directory, volume_bytes, binary, drive_bytes, serve_options=(), prefill=True,
                 fill_share=None, read_cache_bytes=0, volume_options=(), fill_options=()):
        self.directory = os.path.join(directory, "varve")
        self.volume_bytes = volume_bytes
        self.binary = binary
        self.drive_bytes = drive_bytes
        self.serve_options = list(serve_options)
        self.prefill = prefill
        self.fill_share = fill_share
        self.read_cache_bytes = read_cache_bytes
        self.volume_options = list(volume_options)
        self.fill_options = list(fill_options)
        self.process = None
        self.environment = {}

    def start(self):
        """Makes the pool and the volume, and fills the volume once."""
        os.makedirs(self.directory)
        log = open(os.path.join(self.directory, "serve.log"), "w")
        drive = f"{os.path.join(self.directory, 'drive')}={self.drive_bytes}"
        command = [self.binary, "serve", "--data", self.directory, "--nbd", f"unix:{self._socket()}",
                   "--drive", drive, *self.serve_options]
        if self.read_cache_bytes and "--config" not in self.serve_options:
            command += ["--config", self._write_config()]
        self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self._wait_for_socket()
        if self.fill_share:
            capacity_bytes = json.loads(self.cli("pool", "show", "--json"))["capacity_bytes"]
            self.volume_bytes = int(capacity_bytes * self.fill_share) >> 20 << 20
        self.cli("volume", "create", self.volume, "--size", str(self.volume_bytes), *self.volume_options)
        if self.prefill:
            fill(self, self.fill_options)

    def _write_config(self):
        path = os.path.join(self.directory, "varve.toml")
        budget_bytes = DEFAULT_BUDGET_BYTES + self.read_cache_bytes
        with open(path, "w") as file:
            file.write(f'[memory]\nbudget = "{budget_bytes >> 20}MiB"\n'
                       f'read_cache = "{self.read_cache_bytes >> 20}MiB"\n')
        return path

    def cli(self, *arguments):
        """Runs one `varve` command against the daemon; returns what it prints."""
        command = [self.binary, "--data", self.directory, *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise TargetFailed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def options(self):
        """fio's options for this target."""
        return ["--ioengine=nbd", f"--uri=nbd+unix:///{self.volume}?socket={self._socket()}"]

    def pids(self):
        """The daemon."""
        return [self.process.pid]

    def stop(self):
        """Drains and ends the daemon, and removes its data."""
        machine.end(self.process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _socket(self):
        return os.path.join(self.directory, "nbd.sock")

    def _wait_for_socket(self):
        deadline = time.monotonic() + 60
        while not os.path.exists(self._socket()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = open(os.path.join(self.directory, "serve.log")).read()
                raise TargetFailed(f"varve serve did not come up\n{log}")
            time.sleep(0.02)


class Rbd:
    """librbd with its cache off on a one-OSD BlueStore cluster, one copy."""

    name = "rbd"
    image = "bench"
    packages = ("ceph-mon", "ceph-mgr", "ceph-osd", "rbd", "ceph-authtool", "monmaptool")

    def __init__(self, directory, volume_bytes, osd_gib, read_cache_bytes=0):
        self.directory = os.path.join(directory, "ceph")
        self.volume_bytes = volume_bytes
        self.osd_gib = osd_gib
        self.script = os.path.join(os.path.dirname(os.path.dirname(__file__)), "ceph-one-osd")
        self.environment = {"CEPH_CONF": os.path.join(self.directory, "ceph.conf"), "CEPH_ARGS": "",
                            "OSD_MEMORY_BYTES": str(DEFAULT_OSD_MEMORY_BYTES + read_cache_bytes)}
        self._pids = []

    @classmethod
    def missing(cls):
        """Why this target cannot run here, or an empty text."""
        absent = [program for program in cls.packages if not shutil.which(program)]
        if absent:
            return f"{', '.join(absent)} not installed"
        engines = subprocess.run(["fio", "--enghelp"], capture_output=True, text=True).stdout.split()
        return "" if "rbd" in engines else "fio has no rbd engine"

    def start(self):
        """Brings the cluster up, makes the image and fills it once."""
        self._call(self.script, "up", self.directory, str(self.osd_gib))
        self._pids = [int(pid) for pid in self._call(self.script, "pids", self.directory).split()]
        self._call("rbd", "create", self.image, "--size", f"{self.volume_bytes >> 20}M")
        fill(self)

    def options(self):
        """fio's options for this target."""
        return ["--ioengine=rbd", "--clientname=admin", "--pool=rbd", f"--rbdname={self.image}"]

    def pids(self):
        """mon, mgr and OSD."""
        return self._pids

    def stop(self):
        """Ends the daemons and removes their data."""
        subprocess.run([self.script, "down", self.directory], check=False)

    def _call(self, *command):
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **self.environment})
        if done.returncode != 0:
            raise TargetFailed(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout


def fill(target, options=()):
    """Writes the whole volume once, sequentially, with incompressible data unless `options` of fio say otherwise."""
    fio.run(fio.Job(
        target_options=[*target.options(), "--refill_buffers=1", *options], rw="write", block_bytes=FILL_BLOCK_BYTES,
        depth=4, size_bytes=target.volume_bytes, environment=target.environment,
    ))
