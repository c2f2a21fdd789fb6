"""`varve serve` on drives with a file system each: half of the items are objects, half lie in a volume."""

import json
import os
import subprocess
import threading

import nbd

from support import case
from support.gateway import Gateway
from support.loops import MountedDrive, Throttle
from support.protected import Pool

from .ledger import WORKERS, Missing, Unreadable
from .system import KEPT_S_MAX, MIB, SLOW_PER_S, System, files_below, flip_bits

SLOT_BYTES = 4 * MIB
VOLUME_BYTES = 8 * 1024 * MIB
POOL_BYTES = 384 * MIB
SUPERBLOCKS_BYTES = 4 * MIB  # A drive is known by them.


class Varve(System):
    """Six drives, any four of which are enough."""

    name, title = "varve-ec-4+2", "Varve, ec:4+2"
    about = "volume over NBD and buckets over S3; drives are directories"
    protect = "ec:4+2"
    settings = {"pool.drive_patience_s": "3"}
    drives, parity = 6, 2
    flipped_s_max = 900  # A drive of which ten reads were wrong needs attention for ten minutes.

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.mounts, self.slots, self.local, self.life = [], {}, threading.local(), 0
        self.numbers = {}  # of drives that are in the place of others
        self.pool = self.gateway = self.s3 = None

    @classmethod
    def install(cls, context):
        binary = os.environ.get("VARVE")
        if not binary:
            raise case.Skip("VARVE does not name a binary")

    @classmethod
    def version(cls):
        return subprocess.run([os.environ["VARVE"], "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def create(self):
        self.mounts = [self._drive(f"d{number}") for number in range(self.drives)]
        self.pool = Pool(os.path.join(self.directory, "data-of-pool"), self.drives, POOL_BYTES, self.settings, [drive.path for drive in self.mounts])
        self.context.cleanup(self.pool.kill)
        for drive in self.mounts:
            os.rmdir(drive.path)
        self.pool.create(self.protect)
        self.gateway = Gateway(self.context, server=self.pool)
        self.start()
        self.pool.create_volume("v", VOLUME_BYTES)
        self.gateway.client().create_bucket(Bucket="items")

    def _drive(self, name):
        os.makedirs(os.path.join(self.directory, "data-of-pool"), exist_ok=True)
        return MountedDrive(self.context, os.path.join(self.directory, name), self.drive_bytes)

    def start(self):
        self.life += 1
        try:
            self.gateway.start()
        except case.Failure as why:
            words = " ".join(str(why).replace(self.directory, "").split())
            raise Unreadable(words[max(words.rfind("error:"), 0):][:300]) from None
        self.s3 = self.gateway.client(read_timeout=30, max_pool_connections=2 * WORKERS)

    def stop(self):
        if self.pool.alive():
            try:
                self.pool.stop()
            except case.Failure:
                self.pool.kill()

    def kill(self):
        if self.pool:
            self.pool.kill()

    def pull(self, number):
        self.mounts[number].pull()

    def detach(self, number):
        self.mounts[number].detach()

    def attach(self, number):
        self.mounts[number].detach()
        self.mounts[number].attach()

    def replace(self, number):
        old = self.numbers.get(number, number)
        drive = self._drive(f"new-{number}-of-{old}")
        os.rmdir(drive.path)
        self.pool.cli("drive", "replace", str(old), f"{drive.path}={POOL_BYTES}")
        self.mounts[number] = drive
        self.numbers[number] = max(self.pool.states())

    def is_rebuilding(self):
        return "rebuild" in self.pool.cli("drive", "moves", expect=None)

    def put(self, key, body):
        try:
            if self._is_block(key):
                self._volume().pwrite(padded(body), self._offset(key))
            else:
                self.s3.put_object(Bucket="items", Key=key, Body=body)
        except Exception as error:  # noqa: BLE001: clients raise errors of many kinds
            self.local.life = None
            raise Unreadable(f"{type(error).__name__}: {error}") from None

    def get(self, key, size):
        try:
            if self._is_block(key):
                return bytes(self._volume().pread(-(-size // 512) * 512, self._offset(key)))
            return self.s3.get_object(Bucket="items", Key=key)["Body"].read()
        except Exception as error:  # noqa: BLE001
            self.local.life = None
            raise (Missing if error_code(error) == "NoSuchKey" else Unreadable)(f"{type(error).__name__}: {error}") from None

    def delete(self, key):
        try:
            if self._is_block(key):
                self._volume().trim(SLOT_BYTES, self._offset(key))
            else:
                self.s3.delete_object(Bucket="items", Key=key)
        except Exception as error:  # noqa: BLE001
            self.local.life = None
            raise Unreadable(f"{type(error).__name__}: {error}") from None

    def ends_at(self, key, found, size):
        return self._is_block(key) or len(found) == size

    def tears(self, key):
        return self._is_block(key)

    def health(self):
        code, text = self.pool.health()
        return code == 0, " ".join(text.split())

    def claims(self):
        return json.loads(self.pool.cli("health", "--json", expect=None) or "{}").get("survives") or 0

    def scrub(self):
        before = self._scrub()["since_unix_ms"]
        self.pool.cli("drive", "scrub", "--deep")
        # It says that it runs a second after it was told to.
        self.context.wait_for(lambda: self._scrub()["since_unix_ms"] != before and self._scrub()["state"] != "running", "the end of a scrub", KEPT_S_MAX)

    def _scrub(self):
        return json.loads(self.pool.cli("drive", "scrub", "--show", "--json"))

    def flip(self, number, count):
        begins = {path: SUPERBLOCKS_BYTES if os.path.basename(path) == "meta" else 0 for path in files_below(self.mounts[number].path)}
        flip_bits(self.context.random, begins, count)

    def slow(self, number):
        throttle = Throttle(self.context, "varve")
        throttle.add(self.pool.pid)
        throttle.limit(self.mounts[number].number, SLOW_PER_S)

    def _is_block(self, key):
        number = key.rpartition("-")[2]
        return number.isdecimal() and int(number) % 2 == 1

    def _offset(self, key):
        return self.slots.setdefault(key, len(self.slots)) * SLOT_BYTES

    def _volume(self):
        """A client of the volume for this thread; another one after each start, and after each error."""
        if getattr(self.local, "life", None) != self.life:
            self.local.volume = nbd.NBD()
            self.local.volume.connect_uri(self.pool.uri("v"))
            self.local.life = self.life
        return self.local.volume


class VarveMirror(Varve):
    """Two drives, each of which is enough."""

    name, title = "varve-mirror-2", "Varve, mirror:2"
    about = Varve.about + "; a start with half of the mirror, once the other one is known to be lost, is asked for with `--degraded`"
    protect = "mirror:2"
    drives, parity = 2, 1

    def start_without(self):
        self.pool.flags = ["--degraded"]
        try:
            self.start()
        finally:
            self.pool.flags = []


class VarveOfFour(Varve):
    """Four drives, any two of which are enough, which are rebuilt as fast as they can be."""

    protect = "ec:2+2"
    settings = {**Varve.settings, "repair.percent": "100"}
    drives, parity = 4, 2


def error_code(error):
    """S3's code of what a client raised; none where there was no answer."""
    return ((getattr(error, "response", None) or {}).get("Error") or {}).get("Code")


def padded(body):
    """Whole sectors."""
    return body + bytes(-len(body) % 512)
