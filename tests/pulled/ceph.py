"""Ceph's RADOS on six OSDs, an erasure-coded pool 4+2 (`support/ceph-cluster`). A drive that is pulled ends its OSD, as an OSD ends itself on EIO."""

import json
import os
import signal
import subprocess
import threading
import time

from .gluster import command_line, signal_pid
from .ledger import Missing, Unreadable
from .system import Absent, System, bounded, flip_bits

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLUSTER = os.path.join(TESTS, "support", "ceph-cluster")
POOL = "data"
OPERATION_S_MAX = 12
START_S_MAX = 60
STOPPED_S, RUNS_S = 0.4, 0.1
# The label of BlueStore, which is found by its place.
LABEL_BYTES = 1 << 20


class Ceph(System):
    """Six OSDs on files, which are all that there are, so a lost one has to be replaced."""

    name, title = "ceph", "Ceph RADOS, EC 4+2"
    about = ("objects of an erasure-coded pool, `min_size` 5 as Ceph makes it; a pulled drive is its OSD killed, a replaced one an OSD that was destroyed and made "
             "anew; after flips: deep scrub and `pg repair`; well: HEALTH_OK and all PGs active+clean. The slow drive is one whose OSD is stopped for 400 of 500 ms")
    drives, parity = 6, 2
    osd_mib = 1536

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.home = os.path.join(directory, "ceph")
        self.environment = {**os.environ, "CEPH_CONF": os.path.join(self.home, "ceph.conf"), "CEPH_ARGS": "", "OSD_MIB": str(self.osd_mib)}
        self.rados = self.pool = None
        self.attached, self.is_ended = set(range(self.drives)), False

    @classmethod
    def install(cls, context):
        if subprocess.run(["which", "ceph-osd", "ceph-mon", "ceph-mgr", "ceph"], capture_output=True, check=False).returncode:
            raise Absent("not installed (Debian: ceph-mon ceph-mgr ceph-osd ceph-common)")
        try:
            import rados  # noqa: F401
        except ImportError:
            raise Absent("no python3-rados") from None

    @classmethod
    def version(cls):
        return subprocess.run(["ceph", "--version"], capture_output=True, text=True, check=True).stdout.partition(" (")[0].strip()

    def create(self):
        self.context.cleanup(lambda: subprocess.run([CLUSTER, "down", self.home], env=self.environment, capture_output=True, check=False))
        done = subprocess.run([CLUSTER, "up", self.home, "4", "2", "3"], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-500:])
        self._connect()

    def _connect(self):
        import rados
        self.rados = rados.Rados(conffile=self.environment["CEPH_CONF"], name="client.admin",
                                 conf={"rados_osd_op_timeout": str(OPERATION_S_MAX), "rados_mon_op_timeout": str(OPERATION_S_MAX)})
        self.rados.connect(timeout=START_S_MAX)
        self.pool = self.rados.open_ioctx(POOL)

    def start(self):
        for kind, name in (("mon", "a"), ("mgr", "x"), *(("osd", str(number)) for number in sorted(self.attached))):
            self._run(f"ceph-{kind}", "-i", name, "-c", self.environment["CEPH_CONF"])
        self._connect()
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until and self._status().get("osdmap", {}).get("num_up_osds") != len(self.attached):
            time.sleep(0.5)
        while time.monotonic() < until and any("peering" in state["state_name"] for state in self._status()["pgmap"].get("pgs_by_state", [])):
            time.sleep(0.5)

    def stop(self):
        self._end(signal.SIGTERM)

    def kill(self):
        self._end(signal.SIGKILL)

    def _end(self, kind):
        self.is_ended = True
        if self.pool:
            self.pool.close()
            self.pool = None
        pids = self._pids()
        for pid in pids:
            signal_pid(pid, signal.SIGCONT)
            signal_pid(pid, kind)
        until = time.monotonic() + 30
        while any(self.home in command_line(pid) for pid in pids):
            if time.monotonic() > until:
                for pid in pids:
                    signal_pid(pid, signal.SIGKILL)
            time.sleep(0.1)

    def pull(self, number):
        self.attached.discard(number)
        for pid in self._pids(number):
            signal_pid(pid, signal.SIGKILL)

    def detach(self, number):
        self.attached.discard(number)

    def attach(self, number):
        self.attached.add(number)

    def replace(self, number):
        self._run(CLUSTER, "replace", self.home, str(number))
        self.attached.add(number)

    def is_rebuilding(self):
        return any("recover" in state["state_name"] or "backfill" in state["state_name"] for state in self._status()["pgmap"].get("pgs_by_state", []))

    def put(self, key, body):
        self._try(lambda: self.pool.write_full(key, body))

    def get(self, key, size):
        return self._try(lambda: self.pool.read(key, size + 1))

    def delete(self, key):
        self._try(lambda: self.pool.remove_object(key))

    def health(self):
        status = self._status()
        pgs = {state["state_name"]: state["count"] for state in status["pgmap"].get("pgs_by_state", [])}
        word = status["health"]["status"]
        return word == "HEALTH_OK" and set(pgs) == {"active+clean"}, f"{word} {pgs} {', '.join(status['health'].get('checks', {}))}"

    def scrub(self):
        for number in self.attached:
            self._run("ceph", "osd", "deep-scrub", str(number))
        time.sleep(10)
        for _ in range(3):
            for pg in json.loads(self._run("ceph", "pg", "ls", "inconsistent", "-f", "json")).get("pg_stats", []):
                self._run("ceph", "pg", "repair", pg["pgid"])
            time.sleep(5)

    def flip(self, number, count):
        flip_bits(self.context.random, {os.path.join(self.home, f"osd.{number}", "block"): LABEL_BYTES}, count)

    def slow(self, number):
        pids = self._pids(number)
        self.is_ended = False

        def stall():
            while not self.is_ended:
                for kind, seconds in ((signal.SIGSTOP, STOPPED_S), (signal.SIGCONT, RUNS_S)):
                    for pid in pids:
                        signal_pid(pid, kind)
                    time.sleep(seconds)

        threading.Thread(target=stall, daemon=True).start()

    def _try(self, action):
        import rados
        try:
            return bounded(action, OPERATION_S_MAX + 5)
        except rados.ObjectNotFound as error:
            raise Missing(str(error)) from None
        except (rados.Error, AttributeError) as error:
            raise Unreadable(f"{type(error).__name__}: {error}") from None

    def _status(self):
        return json.loads(self._run("ceph", "-s", "-f", "json"))

    def _pids(self, number=None):
        """Its processes, or those of an OSD."""
        word = self.environment["CEPH_CONF"]
        names = ("ceph-osd", "ceph-mon", "ceph-mgr") if number is None else (f"ceph-osd -i {number} ",)
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and word in command_line(int(name))
                and any(one in command_line(int(name)) for one in names)]

    def _run(self, *command):
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise Unreadable(f"{' '.join(command[:4])}: {done.stderr.strip()[-300:]}")
        return done.stdout
