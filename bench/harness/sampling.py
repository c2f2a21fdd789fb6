"""Takes one sample of one point on one peer, with everything around the load.

Order: quiet server, for some points one read of the whole volume, short warm-up, counters, load, client figures, quiet server
again, counters. Bytes to the disk and server CPU are counted until the server is quiet and the page cache is on the disk, so that work put off
past the last acknowledgement is paid for.
"""

import os
import time

from . import machine

WARM_UP_S = 2
READ_FIRST_BYTES = 64 << 10  # read caches take in small reads, and let larger ones pass by


def measure(peer, point, disk, seconds=0, io_bytes=0):
    """Runs `point` on `peer` for `seconds` or `io_bytes`; returns one sample."""
    pids = peer.pids()
    if point.get("read_first"):
        peer.load({**point, "rw": "read", "block_bytes": READ_FIRST_BYTES, "depth": 32})
    if seconds:
        peer.load(point, seconds=min(WARM_UP_S, seconds))
    machine.wait_until_quiet(pids)
    os.sync()

    before = _counters(pids, disk)
    sample = peer.load(point, seconds=seconds, io_bytes=io_bytes)
    at_end = _counters(pids, disk)
    quiet_s = machine.wait_until_quiet(pids)
    os.sync()
    after = _counters(pids, disk)
    peer.after_sample()

    ios, client_bytes = sample["ios"], sample["client_bytes"]
    server_cpu_s = after["cpu_s"] - before["cpu_s"]
    sample.update({
        "rate": sample["iops"],
        "server_cpu_s": server_cpu_s,
        "cpu_us": (server_cpu_s + sample["client_cpu_s"]) * 1e6 / ios,
        "server_cpu_us": server_cpu_s * 1e6 / ios,
        "client_cpu_us": sample["client_cpu_s"] * 1e6 / ios,
        "machine_cpu_us": (at_end["busy_s"] - before["busy_s"]) * 1e6 / ios,
        "quiet_after_s": quiet_s,
        "disk_bytes": after["disk_bytes"] - before["disk_bytes"],
        "server_rss_mib": machine.resident_kib(pids) / 1024,
        "taken_unix": int(time.time()),
    })
    if "write" in point["rw"]:
        sample["write_amplification"] = sample["disk_bytes"] / client_bytes
    return sample


def _counters(pids, disk):
    return {"cpu_s": machine.cpu_seconds(pids), "busy_s": machine.busy_cpu_seconds(), "disk_bytes": machine.disk_bytes_written(disk)}
