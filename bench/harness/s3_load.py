"""Runs the S3 client (`s3_load` of varve-tool-bench) once and returns one sample, with the server's CPU and the disk's counters around it.

Server CPU and bytes to the disk count until the server is quiet again, so that work put off past the last answer is paid for.
Flushes count in the run itself. The client's CPU is its rusage.
"""

import json
import os
import time

from . import client, machine

WARM_UP_S = 1
FILL_S_MAX = 3600
SIZES = {"4k": 4 << 10, "128k": 128 << 10, "10m": 10 << 20}
BUCKET = "bench"
FILES = "/usr"
FILES_BYTES = 1 << 30


class LoadFailed(Exception):
    """The client ended with an error, or requests failed."""


class Client:
    """The client of one server; it remembers what was put, for the gets."""

    def __init__(self, program, server, connections):
        self.program = program
        self.server = server
        self.connections = connections
        self.made = {}
        self.runs = 0

    def make_bucket(self):
        """Makes the bucket, as soon as the server lets it."""
        deadline = time.monotonic() + 60
        while True:
            try:
                return self._run("make")
            except LoadFailed:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def fill(self, total_bytes):
        """Puts so many bytes in objects of 128 KiB, which no point reads."""
        size_bytes = SIZES["128k"]
        objects = total_bytes // (size_bytes * self.connections)
        if objects:
            options = ("--size", str(size_bytes), "--connections", str(self.connections), "--seconds", str(FILL_S_MAX), "--objects", str(objects))
            self._run("put", "--prefix", "fill", *options)
            machine.wait_until_quiet(self.server.pids())

    def measure(self, point, disk, seconds):
        """Runs a point such as `put-4k`, after a short warm-up, or `put-files`; returns its sample."""
        verb, size = point.split("-")
        pids = self.server.pids()
        if size == "files":
            return self._counted(disk, pids, self._put_files)
        if verb == "get" and size not in self.made:
            raise LoadFailed(f"{point} needs put-{size} before it")
        self._load(verb, size, SIZES[size], min(WARM_UP_S, seconds))
        machine.wait_until_quiet(pids)
        return self._counted(disk, pids, self._load, verb, size, SIZES[size], seconds)

    @staticmethod
    def _counted(disk, pids, load, *arguments):
        """A load with what it cost."""
        before = _counters(pids, disk)
        sample = load(*arguments)
        flushes = machine.disk_flushes(disk) - before["flushes"]
        busy_s = machine.busy_cpu_seconds() - before["busy_s"]
        quiet_s = machine.wait_until_quiet(pids)
        os.sync()
        after = _counters(pids, disk)

        requests = sample["requests"]
        sample.update({
            "rate": requests / sample["seconds"],
            "mib_s": sample["bytes"] / sample["seconds"] / (1 << 20),
            "server_cpu_us": (after["cpu_s"] - before["cpu_s"]) * 1e6 / requests,
            "client_cpu_us": sample["client_cpu_s"] * 1e6 / requests,
            "busy_cores": busy_s / sample["seconds"],
            "cpu_us": (after["cpu_s"] - before["cpu_s"] + sample["client_cpu_s"]) * 1e6 / requests,
            "flushes_per_request": flushes / requests,
            "write_amplification": (after["disk_bytes"] - before["disk_bytes"]) / sample["bytes"],
            "quiet_after_s": quiet_s,
            "server_rss_mib": machine.resident_kib(pids) / 1024,
            "taken_unix": int(time.time()),
        })
        return sample

    def _load(self, verb, size, size_bytes, seconds):
        options = ["--size", str(size_bytes), "--seconds", str(seconds), "--connections", str(self.connections)]
        if verb == "put":
            self.runs += 1
            prefix = f"{size}-{self.runs}"
        else:
            prefix, counts = self.made[size]
            options += ["--counts", ",".join(map(str, counts))]
        printed, complaint, client_cpu_s = self._run(verb, "--prefix", prefix, *options)
        sample = {**json.loads(printed), "client_cpu_s": client_cpu_s}
        if sample["errors"] or not sample["requests"]:
            asked = sample["requests"] + sample["errors"]
            raise LoadFailed(f"{self.server.name}: {verb} {size}: {sample['errors']} of {asked} requests failed: {complaint}")
        counts = sample.pop("counts")
        if verb == "put":
            self.made[size] = prefix, counts
        return sample

    def _put_files(self):
        """Files of this machine, in an order by chance that is the same each time."""
        options = ["--from", FILES, "--bytes", str(FILES_BYTES), "--connections", str(self.connections), "--seconds", str(FILL_S_MAX), "--prefix", "files"]
        printed, complaint, client_cpu_s = self._run("files", *options)
        sample = {**json.loads(printed), "client_cpu_s": client_cpu_s}
        if sample["errors"] or sample["bytes"] < FILES_BYTES // 2:
            raise LoadFailed(f"{self.server.name}: files: {sample['errors']} failed, {sample['bytes']} bytes: {complaint}")
        return sample

    def _run(self, verb, *options):
        """Runs the client; returns what it printed, what it complained of, and its CPU time in seconds."""
        command = [self.program, verb, "--address", self.server.address, "--bucket", BUCKET, *options]
        keys = {"AWS_ACCESS_KEY_ID": self.server.access_key, "AWS_SECRET_ACCESS_KEY": self.server.secret_key}
        code, printed, complaint, cpu_s = client.run(command, env={**os.environ, **keys})
        if code != 0:
            raise LoadFailed(f"{' '.join(command)}: exit {code}\n{printed}{complaint}")
        return printed, complaint, cpu_s


def _counters(pids, disk):
    return {"cpu_s": machine.cpu_seconds(pids), "busy_s": machine.busy_cpu_seconds(), "disk_bytes": machine.disk_bytes_written(disk),
            "flushes": machine.disk_flushes(disk)}
