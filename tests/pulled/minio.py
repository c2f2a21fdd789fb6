"""MinIO on six drives with a file system each, EC:2, built from the Go module."""

import os
import socket
import subprocess
import urllib.request

from support import case, fetched
from support.loops import MountedDrive, Throttle

from .ledger import WORKERS, Missing, Unreadable
from .system import SLOW_PER_S, Absent, System, files_below, flip_bits

MODULE, PINNED = "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c"
KEY, SECRET = "VARVEPULL00000000000", "0123456789abcdef0123456789abcdef01234567"
START_S_MAX = 60
OFFLINE, HEALING = "minio_cluster_drive_offline_total", "minio_cluster_health_erasure_set_healing_drives"


class Minio(System):
    """Any four of six drives are enough."""

    name, title = "minio", "MinIO, EC:2"
    about = ("objects over S3; well: its metrics count no drive that is offline or healing. A drive that is empty it heals by itself; of rot it heals what is "
             "read (its deep heal needs another program)")
    drives, parity = 6, 2
    program = None

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.mounts, self.process, self.s3, self.port = [], None, None, free_port()
        self.log_path = os.path.join(directory, "minio.log")

    @classmethod
    def install(cls, context):
        try:
            cls.program = fetched.go_program(MODULE, PINNED)
        except case.Skip as why:
            raise Absent(str(why)) from None

    @classmethod
    def version(cls):
        return f"minio {PINNED}"

    def create(self):
        self.mounts = [MountedDrive(self.context, os.path.join(self.directory, f"d{number}"), self.drive_bytes) for number in range(self.drives)]
        self.context.cleanup(self.kill)
        self.start()
        self.context.wait_for(self._makes_bucket, "MinIO makes a bucket", START_S_MAX)

    def _makes_bucket(self):
        try:
            self.s3.create_bucket(Bucket="items")
        except Exception as error:  # noqa: BLE001: not ready yet
            return "BucketAlreadyOwnedByYou" in str(error)
        return True

    def start(self):
        environment = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET, "MINIO_STORAGE_CLASS_STANDARD": "EC:2",
                       "MINIO_PROMETHEUS_AUTH_TYPE": "public", "MINIO_BROWSER": "off"}
        with open(self.log_path, "a", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.program, "server", "--quiet", "--address", f"127.0.0.1:{self.port}", *(drive.path for drive in self.mounts)],
                                            stdout=log, stderr=log, env=environment, cwd=self.directory)
        try:
            self.context.wait_for(lambda: self._is_up() or self.process.poll() is not None, "MinIO serves", START_S_MAX)
        except case.Failure as why:
            raise Unreadable(f"{why}: {self._log()}") from None
        if self.process.poll() is not None:
            raise Unreadable(f"it ended with {self.process.returncode}: {self._log()}")
        self.s3 = client(self.port)

    def stop(self):
        case.end(self.process)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def pull(self, number):
        self.mounts[number].pull()

    def detach(self, number):
        self.mounts[number].detach()

    def attach(self, number):
        self.mounts[number].detach()
        self.mounts[number].attach()

    def replace(self, number):
        self.mounts[number].replace()

    def is_rebuilding(self):
        return self._metric(HEALING) not in (0, None)

    def put(self, key, body):
        self._try(lambda: self.s3.put_object(Bucket="items", Key=key, Body=body))

    def get(self, key, size):
        return self._try(lambda: self.s3.get_object(Bucket="items", Key=key)["Body"].read())

    def delete(self, key):
        self._try(lambda: self.s3.delete_object(Bucket="items", Key=key))

    def health(self):
        offline, healing = self._metric(OFFLINE), self._metric(HEALING)
        return offline == 0 and not healing, f"{offline} drives offline, {healing} healing"

    def flip(self, number, count):
        files = [path for path in files_below(self.mounts[number].path) if os.path.basename(path) != "format.json"]
        flip_bits(self.context.random, dict.fromkeys(files, 0), count)

    def slow(self, number):
        throttle = Throttle(self.context, "minio")
        throttle.add(self.process.pid)
        throttle.limit(self.mounts[number].number, SLOW_PER_S)

    def _try(self, action):
        try:
            return action()
        except Exception as error:  # noqa: BLE001: clients raise errors of many kinds
            code = ((getattr(error, "response", None) or {}).get("Error") or {}).get("Code")
            raise (Missing if code in ("NoSuchKey", "NoSuchBucket") else Unreadable)(f"{type(error).__name__}: {error}") from None

    def _is_up(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/minio/health/cluster/read", timeout=3) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _metric(self, name):
        """The sum of a metric; none if it is not there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/minio/v2/metrics/cluster", timeout=10) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return None
        found = [float(line.split()[-1]) for line in lines if line.startswith(name)]
        return int(sum(found)) if found else None

    def _log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return " ".join(log.read().split())[-300:]


def client(port):
    """A boto3 client that tries nothing twice."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise Absent("no python3-boto3") from None
    config = Config(retries={"max_attempts": 0}, s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=20, max_pool_connections=2 * WORKERS)
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1",
                        config=config)


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
