"""Takes one sample of one point on one target, with everything around fio's run.

Order: quiet server, for some points one read of the whole volume, short warm-up, counters, fio, client figures, quiet server
again, counters. Bytes to the disk and server CPU are counted until the server is
quiet, so that work put off past the last acknowledgement is paid for.
"""

import time

from . import fio, machine

WARM_UP_S = 2
READ_FIRST_BYTES = 64 << 10  # read caches take in small reads, and let larger ones pass by


def measure(target, point, disk, seconds=0, io_bytes=0):
    """Runs `point` on `target` for `seconds` or `io_bytes`; returns one sample."""
    job = fio.Job(
        target_options=target.options(), rw=point["rw"], block_bytes=point["block_bytes"],
        depth=point["depth"], size_bytes=target.volume_bytes, seconds=seconds, io_bytes=io_bytes,
        fdatasync=target.name == "raw" and point.get("raw_fdatasync", False), environment=target.environment,
        options=point.get("fio_options", ()),
    )
    pids = target.pids()
    if point.get("read_first"):
        whole = {"rw": "read", "block_bytes": READ_FIRST_BYTES, "depth": 32, "seconds": 0, "fdatasync": False}
        fio.run(fio.Job(**{**job.__dict__, **whole}))
    if seconds:
        fio.run(fio.Job(**{**job.__dict__, "seconds": min(WARM_UP_S, seconds)}))
    machine.wait_until_quiet(pids)

    before = _counters(pids, disk)
    sample = fio.run(job)
    at_end = _counters(pids, disk)
    quiet_s = machine.wait_until_quiet(pids)
    after = _counters(pids, disk)

    ios, client_bytes = sample["ios"], sample["client_bytes"]
    server_cpu_s = after["cpu_s"] - before["cpu_s"]
    sample.update({
        "target": target.name,
        "server_cpu_s": server_cpu_s,
        "cpu_us": (server_cpu_s + sample["client_cpu_s"]) * 1e6 / ios,
        "server_cpu_us": server_cpu_s * 1e6 / ios,
        "client_cpu_us": sample["client_cpu_s"] * 1e6 / ios,
        "machine_cpu_us": (at_end["busy_s"] - before["busy_s"]) * 1e6 / ios,
        "quiet_after_s": quiet_s,
        "disk_bytes": after["disk_bytes"] - before["disk_bytes"],
        "server_bytes": after["server_bytes"] - before["server_bytes"],
        "server_rss_mib": machine.resident_kib(pids) / 1024,
        "taken_unix": int(time.time()),
    })
    if "write" in point["rw"]:
        sample["write_amplification"] = sample["disk_bytes"] / client_bytes
        if pids:
            sample["server_write_amplification"] = sample["server_bytes"] / client_bytes
    return sample


def _counters(pids, disk):
    return {
        "cpu_s": machine.cpu_seconds(pids),
        "busy_s": machine.busy_cpu_seconds(),
        "disk_bytes": machine.disk_bytes_written(disk),
        "server_bytes": machine.process_bytes_written(pids),
    }
