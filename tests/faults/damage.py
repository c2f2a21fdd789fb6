"""Damage: what is lost is said, and no more than that is lost."""

import os
import subprocess

from support.server import MIB

from .site import check, fault


@fault
def a_drive_that_was_cut_short_is_an_error(site):
    """A drive file that ended within its superblocks made the daemon panic."""
    daemon = site.serve()
    daemon.stop()
    meta = os.path.join(daemon.drive, "meta")
    size = os.path.getsize(meta)
    with open(meta, "rb") as file:
        content = file.read()
    for length in sorted({0, 1, 4096, 65536, MIB, MIB + 4096, 2 * MIB, 3 * MIB, size - 4096} & set(range(size))):
        with open(meta, "wb") as file:
            file.write(content[:length])
        done = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=60, cwd=daemon.directory)
        check(done.returncode in (1, 2) and "panicked" not in done.stderr, f"{length} bytes: exit {done.returncode}\n{done.stderr}")
    with open(meta, "wb") as file:
        file.write(content)
    daemon.start()
