"""Damage: what is lost is said, and no more than that is lost."""

import json
import os
import subprocess
import tarfile
import time

import nbd

from support.server import MIB

from .objects import store

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


def flip_roots(drive, shard):
    """Turns a byte over in both sides of a shard's root: the shard does not open. Done twice it is whole again."""
    slot = (256 << 10) + 4096  # behind the superblocks: the pool's root and one for each of two shards, twice
    with open(os.path.join(drive, "meta"), "r+b") as file:
        for side in range(2):
            file.seek(4 * MIB + (side * 3 + 1 + shard) * slot + 70)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 0x55]))


@fault
def a_damaged_shard_takes_down_no_more_than_itself(site):
    """Damage to one shard kept the daemon from starting, each request for it waited 20 s, and nothing got the rest out."""
    gateway, client = store(site, shards=2)
    daemon = gateway.server
    objects = {f"dir/{number}": os.urandom(1 + number * 40_000) for number in range(20)}
    for key, body in objects.items():
        client.put_object(Bucket="bkt", Key=key, Body=body)
    client.copy_object(Bucket="bkt", Key="copy", CopySource="bkt/dir/19")
    objects["copy"] = objects["dir/19"]
    site.daemon, wanted = daemon, [os.urandom(MIB) for _ in range(2)]
    volumes = [f"v{number}" for number in range(12)]  # some named on each shard, each with regions on both
    for volume in volumes:
        daemon.create_volume(volume, 128 * MIB)
        handle = site.open(volume)
        for place, data in enumerate(wanted):
            handle.pwrite(data, place * 64 * MIB)
        handle.shutdown()
    daemon.stop()
    daemon.cli("salvage", "--to", site.path("whole"))
    check(salvaged(site.path("whole")) == objects, "all objects are salvaged from a whole pool")

    flip_roots(daemon.drive, 1)
    daemon.cli("salvage", "--to", site.path("half"), expect=1)
    some = salvaged(site.path("half"))
    check(0 < len(some) < len(objects) and all(objects[key] == body for key, body in some.items()), f"{len(some)} objects are salvaged")
    daemon.start()
    status = json.loads(daemon.cli("status", "--json"))
    check([shard["state"] for shard in status["shards"]] == ["serving", "damaged"], status)
    check(any("S3 is not served" in trouble for trouble in status["troubles"]), status)  # names of buckets and users are on all shards
    begin, served = time.monotonic(), 0
    for volume in volumes:
        try:
            handle = site.open(volume)
        except nbd.Error:
            continue  # its name is on the damaged shard
        for place, data in enumerate(wanted):
            try:
                check(handle.pread(MIB, place * 64 * MIB) == data, f"region {place} is as it was")
                served += 1
            except nbd.Error:
                pass
        handle.shutdown()
    check(0 < served < 2 * len(volumes), f"{served} of {2 * len(volumes)} regions are served")
    check(time.monotonic() - begin < 15, "requests for a damaged shard do not wait")
    daemon.stop()
    flip_roots(daemon.drive, 1)
    gateway.start()
    client = gateway.client(signature_version="s3v4")
    for volume in volumes:
        handle = site.open(volume)
        for place, data in enumerate(wanted):
            check(handle.pread(MIB, place * 64 * MIB) == data, f"{volume} is whole again")
    for key, body in objects.items():
        check(client.get_object(Bucket="bkt", Key=key)["Body"].read() == body, f"{key} is whole again")


def salvaged(directory):
    """The objects of a salvaged bucket."""
    with tarfile.open(os.path.join(directory, "bkt.tar")) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
