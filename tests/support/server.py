"""The server under test: `varve serve`, or a stand-in that checks the tests themselves.

`VARVE` names the binary. `STAND_IN=honest` uses qemu-nbd on a raw file instead, which
keeps what it acknowledged across `kill -9`; `STAND_IN=forgetful` also loses one in
fifty acknowledged blocks at every restart, and every durability test must fail on it.
"""

import os
import signal
import socket
import subprocess
import threading
import time

from .case import Failure, Skip

MIB = 1 << 20
GIB = 1 << 30
START_S_MAX = 60


# Settings that make a small pool: lanes that wrap, caches that miss, checkpoints that come often.
TIGHT = {"journal.lane_size": '"16MiB"', "memory.budget": '"128MiB"', "checkpoint.entries_max": "10000"}

# What is stored is settled once nothing changed for so long.
SETTLED_S = 4


def make(context, drive_bytes=4 * GIB, directory=None, settings=None):
    """The server that the environment asks for, not started yet; `settings` go to its configuration file."""
    directory = directory or context.path("data")
    os.makedirs(directory, exist_ok=True)
    kind = os.environ.get("STAND_IN")
    if kind:
        server = StandIn(directory, forgetful=kind == "forgetful", random=context.random)
    else:
        server = Varve(directory, drive_bytes, settings or {})
    context.cleanup(server.kill)
    return server


class Server:
    """One server process and its data directory."""

    is_stand_in = False

    def __init__(self, directory):
        self.directory = directory
        self.socket = os.path.join(directory, "nbd.sock")
        self.process = None
        self.log_path = os.path.join(directory, "serve.log")

    def uri(self, volume):
        """The NBD URI of a volume."""
        return f"nbd+unix:///{volume}?socket={self.socket}"

    @property
    def pid(self):
        """Process id of the running server."""
        return self.process.pid

    def alive(self):
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def spawn(self):
        """Starts the process without waiting for it to serve."""
        assert not self.alive(), "started twice"
        log = open(self.log_path, "a")
        self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.directory)
        log.close()

    def start(self):
        """Starts the process; returns the seconds until its socket accepted."""
        begin = time.monotonic()
        self.spawn()
        while not self.accepts():
            if not self.alive():
                raise Failure(f"the server ended with {self.process.returncode}\n{self.log_tail()}")
            if time.monotonic() - begin > START_S_MAX:
                raise Failure(f"the server did not serve within {START_S_MAX} s\n{self.log_tail()}")
            time.sleep(0.005)
        return time.monotonic() - begin

    def accepts(self):
        """Whether the socket accepts a connection now and greets it."""
        probe = socket.socket(socket.AF_UNIX)
        probe.settimeout(1)
        try:
            probe.connect(self.socket)
            return probe.recv(8) == b"NBDMAGIC"
        except OSError:
            return False
        finally:
            probe.close()

    def kill(self):
        """SIGKILL: nothing is written, closed or said goodbye to."""
        if self.alive():
            self.process.kill()
        if self.process:
            self.process.wait()

    def stop(self, seconds=60):
        """SIGTERM; fails unless the server leaves with 0 in time."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"the server did not end within {seconds} s of SIGTERM") from None
        if code != 0:
            raise Failure(f"the server ended with {code} after SIGTERM\n{self.log_tail()}")

    def log_tail(self):
        """The end of what the server printed."""
        with open(self.log_path, errors="replace") as log:
            return log.read()[-3000:]

    def resident_mib(self):
        """Resident memory now and at its highest, in MiB."""
        now = high = 0
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    now = int(line.split()[1]) / 1024
                elif line.startswith("VmHWM:"):
                    high = int(line.split()[1]) / 1024
        return now, high


class Varve(Server):
    """`varve serve` on one file-backed drive."""

    def __init__(self, directory, drive_bytes, settings):
        super().__init__(directory)
        binary = os.environ.get("VARVE")
        if not binary:
            raise Skip("VARVE does not name a binary")
        self.binary = os.path.abspath(binary)
        self.drive = os.path.join(directory, "drive")
        self.drive_bytes = drive_bytes
        with open(os.path.join(directory, "varve.toml"), "w") as file:
            # Requests cross threads on any machine; S3 where a test wants it, at a port of the system's choice.
            settings = {"shards": 2, "s3.listen": '"none"', **settings}
            file.writelines(f"{key} = {value}\n" for key, value in settings.items())

    def command(self):
        """The command that serves."""
        return [self.binary, "serve", "--data", self.directory, "--nbd", f"unix:{self.socket}",
                "--drive", f"{self.drive}={self.drive_bytes}"]

    def cli(self, *arguments, expect=0):
        """Runs `varve --data DIR …`; returns what it printed, or, where it is to fail, why it did."""
        command = [self.binary, "--data", self.directory, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if expect is not None and done.returncode != expect:
            raise Failure(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stderr if expect else done.stdout

    def create_volume(self, name, size_bytes):
        """Makes a volume."""
        self.cli("volume", "create", name, "--size", str(size_bytes))

    def delete_volume(self, name):
        """Deletes a volume."""
        self.cli("volume", "delete", name)

    def metrics(self):
        """What the daemon exports for Prometheus, as text."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            connection.connect(os.path.join(self.directory, "admin.sock"))
            connection.sendall(b"GET /metrics HTTP/1.0\r\nHost: varve\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
        head, _, body = answer.partition(b"\r\n\r\n")
        if b" 200 " not in head.split(b"\r\n")[0]:
            raise Failure(f"metrics: {head.decode(errors='replace')}")
        return body.decode()

    def metric(self, name):
        """The sum of a metric over all shards."""
        return sum(int(float(line.split()[-1])) for line in self.metrics().splitlines() if line.startswith(name + "{"))

    def live_bytes(self):
        """What is stored, metadata included."""
        return self.metric("varve_logstore_live_bytes")

    def settled_bytes(self, is_enough=None, seconds=120):
        """What is stored once that does not change for some seconds, or is enough."""
        deadline, last, since = time.monotonic() + seconds, None, time.monotonic()
        while time.monotonic() < deadline:
            found = self.live_bytes()
            if is_enough and is_enough(found):
                return found
            if found != last:
                last, since = found, time.monotonic()
            elif not is_enough and time.monotonic() - since > SETTLED_S:
                return found
            time.sleep(0.5)
        return last

    def check(self):
        """Offline `varve check`; returns its exit code and what it printed."""
        command = [self.binary, "--data", self.directory, "check"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3600)
        return done.returncode, done.stdout


class StandIn(Server):
    """qemu-nbd on a raw file: one volume, durable across SIGKILL unless forgetful."""

    is_stand_in = True

    def __init__(self, directory, forgetful, random):
        super().__init__(directory)
        self.forgetful = forgetful
        self.random = random
        self.file = os.path.join(directory, "volume.raw")
        self.volume = "none"
        self._started = False

    def command(self):
        """The command that serves."""
        return ["qemu-nbd", "--persistent", "--shared=16", "--format=raw", "--cache=writeback", "--discard=unmap",
                "-x", self.volume, "-k", self.socket, self.file]

    def spawn(self):
        """Starts the process; the forgetful one first loses blocks."""
        if self.forgetful and self._started:
            self._forget()
        self._started = True
        if not os.path.exists(self.file):
            open(self.file, "w").close()
        super().spawn()

    def create_volume(self, name, size_bytes):
        """Gives the raw file its size; qemu-nbd learns both by a restart."""
        self.volume = name
        os.truncate(self.file, size_bytes)
        self.kill()
        forgetful, self.forgetful = self.forgetful, False
        self.start()
        self.forgetful = forgetful

    def delete_volume(self, name):
        """Empties the raw file."""
        os.truncate(self.file, 0)

    def check(self):
        """A stand-in has nothing to check."""
        return 0, ""

    def _forget(self):
        zero = bytes(4096)
        with open(self.file, "r+b") as file:
            for offset in range(0, os.path.getsize(self.file), 4096):
                if self.random.random() < 0.02 and os.pread(file.fileno(), 4096, offset) != zero:
                    os.pwrite(file.fileno(), zero, offset)


class MemoryWatch:
    """Samples the server's resident memory on a thread, across restarts."""

    def __init__(self, server, period_s=0.05):
        self.server = server
        self.highest_mib = 0.0
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(self._period_s):
            try:
                self.highest_mib = max(self.highest_mib, *self.server.resident_mib())
            except (OSError, AttributeError, ValueError):
                continue  # between two lives of the server

    def close(self):
        """Ends the thread; returns the highest value seen in MiB."""
        self._stop.set()
        self._thread.join()
        return self.highest_mib
