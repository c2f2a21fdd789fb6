"""Volumes: names, space, trims, sizes, connections."""

import json
import os
import re

import nbd

from support.server import GIB, MIB

from .site import check, fault, seconds


@fault
def names_are_measured_as_they_are_stored(site):
    """A name that fitted alone but not with its namespace stopped listings and mark passes."""
    daemon = site.serve()
    daemon.create_volume("kept", 600 * MIB)
    for name in ("c" * 248, "c" * 255, "lab/" + "c" * 252):
        said = daemon.cli("volume", "create", name, "--size", "1MiB", expect=1)
        check("longer than 255 bytes" in said, said)
        said = daemon.cli("volume", "clone", "kept", name, expect=1)
        check("longer than 255 bytes" in said, said)
    daemon.create_volume("c" * 247, MIB)
    for command in (("volume", "list"), ("status",), ("df",), ("check", "--online")):
        daemon.cli(*command)
    daemon.delete_volume("c" * 247)


@fault
def space_comes_back_under_snapshots(site):
    """Snapshots that are taken, written past and deleted leave no space behind."""
    daemon = site.serve()
    daemon.create_volume("bank", 600 * MIB)
    site.write("bank", 150)
    for _ in range(4):
        daemon.cli("volume", "snapshot", "create", "bank@s")
        _, error = site.write("bank", 100)
        check(error is None, f"a write failed with {error}")
        daemon.cli("volume", "snapshot", "delete", "bank@s")
        site.context.wait_for(lambda: site.used_percent() < 50, "space of the snapshot", seconds=30)


@fault
def huge_volumes_cost_what_is_stored(site):
    """A difference and an export of 1 PiB without data took minutes."""
    daemon = site.serve()
    daemon.cli("volume", "create", "huge", "--size", "1PiB")
    daemon.cli("volume", "snapshot", "create", "huge@a")
    handle = site.open("huge")
    handle.pwrite(b"x" * 4096, (1 << 50) - 4096)
    handle.shutdown()
    took = seconds(lambda: check(
        len(json.loads(daemon.cli("volume", "diff", "huge", "--from", "a", "--json"))["extents"]) == 1, "one block changed"))
    check(took < 10, f"the difference took {took:.1f} s")
    took = seconds(lambda: daemon.cli("volume", "export", "huge@a", site.path("huge.varve")))
    check(took < 10, f"the export took {took:.1f} s")


@fault
def sizes_are_read_as_people_write_them(site):
    """Sizes such as 20G were refused, and errors rounded the number away."""
    daemon = site.serve()
    for size, expected in (("20G", 20 * GIB), ("20Gi", 20 * GIB), ("20GB", 20 * 10**9), ("1.5TiB", 3 * (1 << 39)), ("5T", 5 << 40)):
        made = json.loads(daemon.cli("volume", "create", "v", "--size", size, "--json"))
        check(made["size_bytes"] == expected, f"{size}: {made['size_bytes']}")
        daemon.delete_volume("v")
    said = daemon.cli("volume", "create", "v", "--size", "4095", expect=1)
    check("invalid size 4095 B: must be a multiple of 512 B" in said, said)
    said = site.refused("--data", "d", "serve", "--drive", "drive=100MiB")
    check("must have 128 MiB to 1 PiB" in said, said)


@fault
def what_one_shard_took_another_one_gets_back(site):
    """A pool that was full unevenly refused data once it was empty: zones that one shard had taken never came back."""
    daemon = site.serve(shards=2)
    on = {"0": [], "1": []}
    for number in range(40):
        name = f"s{number}"
        daemon.create_volume(name, 64 * MIB)
        before = written_by_shard(daemon)
        handle = site.open(name)
        handle.pwrite(os.urandom(4096), 0)
        handle.shutdown()
        after = written_by_shard(daemon)
        on[max(after, key=lambda shard: after[shard] - before.get(shard, 0))].append(name)
    taken = 0
    for name in on["0"]:
        mib, error = site.write(name, 64)
        taken += mib
        if error:
            break
    for name in on["0"] + on["1"]:
        daemon.delete_volume(name)
    site.context.wait_for(lambda: site.used_percent() < 5, "space of the deleted volumes", seconds=60)
    daemon.create_volume("whole", 700 * MIB)
    mib, error = site.write("whole", 128)
    check(error is None, f"shard 0 took {taken} MiB; then {mib} MiB of an empty pool were taken before {error}")


@fault
def cycles_of_filling_and_deleting_find_all_space_again(site):
    """Each time that a pool of several shards was filled, it took less."""
    daemon = site.serve(shards=4, drive_bytes=2 * GIB)
    first = None
    for cycle in range(4):
        names, taken, error = [], 0, None
        while error is None:
            names.append(f"v{cycle}-{len(names)}")
            daemon.create_volume(names[-1], 96 * MIB)
            mib, error = site.write(names[-1], 96)
            taken += mib
        first = first or taken
        check(taken >= first * 0.95, f"cycle {cycle} took {taken} MiB, the first {first}")
        for name in names:
            daemon.delete_volume(name)
        site.context.wait_for(lambda: site.used_percent() < 5, "space of the deleted volumes", seconds=60)


def written_by_shard(daemon):
    """Bytes that clients wrote, by shard."""
    found = re.findall(r'^varve_engine_write_bytes_total\{shard="(\d+)"\} (\S+)', daemon.metrics(), re.MULTILINE)
    return {shard: float(value) for shard, value in found}


@fault
def trims_with_edges_inside_blocks_work_on_a_full_pool(site):
    """A trim that did not begin and end with blocks was refused as a whole on a full pool."""
    daemon = site.serve()
    daemon.create_volume("g", 2 * GIB)
    _, error = site.write("g", 2000)
    check(error == "ENOSPC", f"filling ended with {error}")
    handle = site.open("g")
    try:
        for at in range(GIB, 2 * GIB, 4096):
            handle.pwrite(os.urandom(4096), at)
    except nbd.Error:
        pass
    for offset, length in ((10 * MIB, MIB), (20 * MIB + 1024, MIB), (30 * MIB + 512, 512)):
        handle.trim(length, offset)
    check(not any(handle.pread(MIB - 8192, 20 * MIB + 4096)), "whole blocks inside are cleared")


@fault
def refused_writes_leave_the_connection_alive(site):
    """A write that was refused before its payload had come broke libnbd's connection."""
    daemon = site.serve()
    daemon.create_volume("a", 64 * MIB)
    for length in (65536, MIB):
        daemon.cli("volume", "resize", "a", "--size", "64MiB")
        handle = site.open("a")
        daemon.cli("volume", "resize", "a", "--size", "1MiB", "--shrink")
        try:
            handle.pwrite(b"x" * length, 32 * MIB)
            check(False, "a write beyond the end was taken")
        except nbd.Error as refused:
            check(refused.errno == "ENOSPC", f"{length}: {refused}")
        check(len(handle.pread(512, 0)) == 512, "the connection goes on")
        handle.shutdown()


@fault
def hundreds_of_disks_are_open_at_a_time(site):
    """256 connections were the most, and could not be changed; the 257th was closed without a reason."""
    daemon = site.serve()
    handles = []
    for number in range(300):
        daemon.create_volume(f"o{number}", MIB)
        handles.append(site.open(f"o{number}"))
    check(len(handles[-1].pread(512, 0)) == 512, "the last one is served")


@fault
def clients_are_listed_and_put_out(site):
    """A client that had vanished kept its volume for ever."""
    daemon = site.serve()
    daemon.create_volume("a", MIB)
    handle = site.open("a")
    check(len(json.loads(daemon.cli("volume", "clients", "a", "--json"))["clients"]) == 1, daemon.cli("volume", "clients", "a"))
    daemon.cli("volume", "delete", "a", expect=1)
    daemon.cli("volume", "disconnect", "a")
    daemon.delete_volume("a")
    del handle


@fault
def a_signal_at_once_ends_in_order(site):
    """A daemon that got SIGTERM between its first answer to a client and its first call of the API ended as by a crash."""
    daemon = site.serve()
    daemon.stop()
    for _ in range(12):
        daemon.start()
        daemon.stop()


@fault
def an_online_check_without_a_daemon_was_not_made(site):
    """`check --online` without a daemon ended with 1, as if the pool were damaged."""
    daemon = site.serve()
    daemon.stop()
    daemon.cli("check", "--online", expect=2)
