"""Facts about the machine, and the counters a sample is taken from.

Bytes to the disk come from /proc/diskstats of the disk under the data directory
(every writer on the machine, file system journal included) and, beside it, from
/proc/PID/io of the server's processes (theirs alone).
"""

import os
import platform
import signal
import subprocess
import time

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SECTOR_BYTES = 512


def facts(directory):
    """What a reader must know to compare figures: cores, memory, disk, kernel."""
    cores = os.cpu_count()
    return {
        "machine": f"{cores}-core VM" if _is_vm() else f"{cores}-core machine",
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": cores,
        "memory_mib": memory_mib(),
        "kernel": platform.release(),
        "disk": disk_name(directory),
        "disk_scheduler": _read(f"/sys/block/{disk_name(directory)}/queue/scheduler"),
        "file_system": _file_system(directory),
        "load_before": os.getloadavg()[0],
    }


def memory_mib():
    """Memory of the machine."""
    return int(_field("/proc/meminfo", "MemTotal").split()[0]) // 1024


def disk_name(directory):
    """The block device (the whole disk) that holds `directory`."""
    device = os.stat(directory).st_dev
    path = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    if os.path.exists(os.path.join(path, "partition")):
        path = os.path.dirname(path)
    return os.path.basename(path)


def disk_bytes_written(disk):
    """Bytes written to `disk` since boot."""
    return int(_disk_fields(disk)[9]) * SECTOR_BYTES


def disk_flushes(disk):
    """Flushes of `disk`'s cache since boot."""
    return int(_disk_fields(disk)[18])


def _disk_fields(disk):
    with open("/proc/diskstats") as table:
        for line in table:
            fields = line.split()
            if fields[2] == disk:
                return fields
    raise LookupError(f"disk {disk} is not in /proc/diskstats")


def cpu_seconds(pids):
    """User and system time of `pids` since they started."""
    ticks = 0
    for pid in pids:
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if not fields:
            raise ProcessLookupError(f"process {pid} of the peer has ended by itself")
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_S


def process_bytes_written(pids):
    """Bytes that `pids` caused to be sent to block devices."""
    return sum(int(_field(f"/proc/{pid}/io", "write_bytes")) for pid in pids)


def resident_kib(pids):
    """Resident memory of `pids` now."""
    return sum(int(_field(f"/proc/{pid}/status", "VmRSS").split()[0]) for pid in pids)


def busy_cpu_seconds():
    """CPU time of everything on the machine, kernel threads included."""
    fields = _read("/proc/stat").splitlines()[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, _steal = (int(x) for x in fields)
    return (user + nice + system + irq + softirq) / TICKS_PER_S


def wait_until_quiet(pids, seconds_max=15.0):
    """Waits until `pids` neither compute nor write; returns the seconds it took.

    Quiet is under 5 % of a core, a tick of the clock for each process aside, and under 1 MiB/s, three times in a row.
    """
    begin = time.monotonic()
    calm, step = 0, 0.3
    cpu, written = cpu_seconds(pids), process_bytes_written(pids)
    while calm < 3 and time.monotonic() - begin < seconds_max:
        time.sleep(step)
        cpu_now, written_now = cpu_seconds(pids), process_bytes_written(pids)
        quiet = cpu_now - cpu < 0.05 * step + max(1, len(pids)) / TICKS_PER_S and written_now - written < step * 2**20
        calm = calm + 1 if quiet else 0
        cpu, written = cpu_now, written_now
    return time.monotonic() - begin


def end(process):
    """Ends a server, if one runs, as a user would; kills it when that takes longer than a minute."""
    if process and process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def commit(repository):
    """Short commit id; ends in `-dirty` when the tree differs from it."""
    command = ["git", "-C", repository, "describe", "--always", "--dirty", "--abbrev=9", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _is_vm():
    return "hypervisor" in _field("/proc/cpuinfo", "flags").split()


def _file_system(directory):
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _read("/proc/self/mountinfo").splitlines():
        if line.split()[2] == wanted:
            return line.partition(" - ")[2].split()[0]
    return "unknown"


def _field(path, name):
    with open(path) as lines:
        for line in lines:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return ""


def _read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
