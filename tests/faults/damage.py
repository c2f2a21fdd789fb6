"""Damage: what is lost is said, and no more than that is lost."""

import os
import subprocess

from support.server import MIB

from .site import check, fault


def killed_under_load(site, daemon):
    """Kills the daemon while a client writes blocks of 4 KiB; how many were acknowledged."""
    daemon.create_volume("v", 64 * MIB)
    daemon.stop()  # The volume is not in the journal alone.
    daemon.start()
    handle = site.open("v")
    for block in range(200):
        handle.pwrite(bytes([1 + block % 250]) * 4096, block * 4096)
    daemon.kill()
    return 200


@fault
def a_lost_journal_is_noticed(site):
    """A journal lane that was zeroed after a kill was taken for an empty one: acknowledged writes were gone without a word."""
    daemon = site.serve()
    killed_under_load(site, daemon)
    lane = os.path.join(daemon.drive, "lane-0000")
    with open(lane, "r+b") as file:
        file.write(bytes(os.path.getsize(lane)))
    code, said = daemon.check()
    check(code == 1 and "lane" in said, f"varve check: exit {code}\n{said}")
    daemon.spawn()
    site.context.wait_for(lambda: not daemon.alive(), "the start is refused")
    check("--accept-lost-journal" in daemon.log_tail(), daemon.log_tail())
    base = daemon.command()
    daemon.command = lambda: [*base, "--accept-lost-journal"]
    daemon.start()
    check(len(site.open("v").pread(4096, 0)) == 4096, "what was stored elsewhere is served")
    daemon.stop()
    daemon.command = lambda: base
    daemon.start()


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
