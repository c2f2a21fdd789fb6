"""Runs fio once and returns one sample: rates, latencies and the client's CPU.

All latencies are fio's total latency (submission to completion) from one
histogram. CPU of the client is the rusage of fio and its job processes.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from . import client

PERCENTILES = {"p50_us": "50.000000", "p99_us": "99.000000", "p999_us": "99.900000"}


class FioFailed(Exception):
    """fio ended with an error; the text is what it printed."""


@dataclass
class Job:
    """One fio job: the target's own options and the access pattern."""

    target_options: list
    rw: str
    block_bytes: int
    depth: int
    size_bytes: int
    seconds: int = 0
    io_bytes: int = 0
    environment: dict = None
    options: tuple = ()


def version():
    """fio's version, as it prints it. Raises FioFailed when it is not installed."""
    if not shutil.which("fio"):
        raise FioFailed("fio is not installed: apt-get install fio")
    return subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()


def run(job):
    """Runs `job`; returns a dict of what fio measured. Raises FioFailed."""
    with tempfile.TemporaryDirectory(prefix="varve-fio-") as scratch:
        output = os.path.join(scratch, "out.json")
        command = [
            "fio", "--name=point", f"--output={output}", "--output-format=json",
            f"--rw={job.rw}", f"--bs={job.block_bytes}", f"--iodepth={job.depth}",
            f"--size={job.size_bytes}", "--randrepeat=0", "--norandommap=1", "--random_generator=tausworthe64",
            "--lat_percentiles=1", "--clat_percentiles=0", "--percentile_list=50:99:99.9",
            *job.target_options, *job.options,
        ]
        if job.seconds:
            command += ["--time_based=1", f"--runtime={job.seconds}"]
        if job.io_bytes:
            command += [f"--io_size={job.io_bytes}"]
        code, printed, complaint, cpu_s = client.run(command, cwd=scratch, env={**os.environ, **(job.environment or {})})
        text = open(output).read() if os.path.exists(output) else ""
        if code != 0:
            raise FioFailed(f"{' '.join(command)}\n{printed}{complaint}{text[:2000]}")
        return _sample(job, text, cpu_s, command)


def _sample(job, text, cpu_s, command):
    # Some engines print lines of their own before the JSON document.
    document = json.loads(text[re.search(r"^\{", text, re.M).start():])
    result = document["jobs"][0]
    side = result["write" if job.rw in ("write", "randwrite") else "read"]  # of a mix the reads
    sample = {
        "command": " ".join(command),
        "ios": side["total_ios"],
        "client_bytes": side["io_bytes"],
        "seconds": side["runtime"] / 1000,
        "iops": side["iops"],
        "mib_s": side["bw_bytes"] / 2**20,
        "mean_us": side["lat_ns"]["mean"] / 1000,
        "max_us": side["lat_ns"]["max"] / 1000,
        "client_cpu_s": cpu_s,
        "fio_version": document["fio version"],
    }
    for name, key in PERCENTILES.items():
        sample[name] = side["lat_ns"]["percentile"][key] / 1000
    return sample
