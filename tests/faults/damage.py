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
    # Not at all where no access key is left that shows that the sealing key is the right one.
    check(any("S3 is served in part" in trouble or "S3 is not served" in trouble for trouble in status["troubles"]), status)
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


def outcome(request, **arguments):
    """Code of a request's error, or `ok`."""
    from botocore.exceptions import ClientError

    try:
        request(**arguments)
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "ok"


def some_of_both(outcomes, good, what):
    """Those with the outcome `good`; the others are refused as unavailable, and there are some of both."""
    found = [name for name, code in outcomes.items() if code == good]
    check(0 < len(found) < len(outcomes) and set(outcomes.values()) == {good, "ServiceUnavailable"}, f"{what}: {outcomes}")
    return found


def served_in_part(site, gateway, shard, users, buckets, objects):
    """What S3 and the operator's commands say while a shard is damaged."""
    daemon, begin = gateway.server, time.monotonic()
    clients = {user: gateway.client(keys=keys, signature_version="s3v4") for user, keys in users.items()}
    known = {user: max(outcome(client.get_bucket_location, Bucket=bucket) for bucket in buckets) for user, client in clients.items()}
    known = some_of_both(known, "ok", "users")
    client = clients[known[0]]
    served = some_of_both({bucket: outcome(client.get_bucket_location, Bucket=bucket) for bucket in buckets}, "ok", "buckets")
    strangers = [f"nobody-has-{number}" for number in range(16)]
    some_of_both({name: outcome(client.get_bucket_location, Bucket=name) for name in strangers}, "NoSuchBucket", "names that nobody has")
    forged = {name: gateway.client(keys=(name.upper(), "x" * 40), signature_version="s3v4") for name in strangers}
    some_of_both({name: outcome(forger.list_buckets) for name, forger in forged.items()}, "InvalidAccessKeyId", "keys that nobody has")
    for bucket in set(buckets) - set(served):
        for request in (client.create_bucket, client.delete_bucket, client.list_objects_v2):
            check(outcome(request, Bucket=bucket) == "ServiceUnavailable", f"{request} of {bucket}, whose name may be on the damaged shard")
    check(outcome(client.list_buckets) == "ServiceUnavailable", "no short list of buckets")
    for bucket in served:
        check(outcome(client.head_bucket, Bucket=bucket) == "ok", f"{bucket} is there")
        check(outcome(client.delete_bucket, Bucket=bucket) == "ServiceUnavailable", f"{bucket} may hold what is not seen")
        there = some_of_both({key: outcome(client.get_object, Bucket=bucket, Key=key) for key in objects}, "ok", f"objects of {bucket}")
        for key in there:
            check(client.get_object(Bucket=bucket, Key=key)["Body"].read() == objects[key], f"{key} of {bucket} is as it was")
            client.put_object(Bucket=bucket, Key=key, Body=objects[key])
    check(time.monotonic() - begin < 60, "requests for a damaged shard do not wait")

    listed = json.loads(daemon.cli("bucket", "list", "--json"))
    check([bucket["name"] for bucket in listed["buckets"] if bucket["name"] != "bkt"] == sorted(served), listed)
    check(f"shard {shard}," in listed["incomplete"] and all(bucket["usage_unknown"] for bucket in listed["buckets"]), listed)
    check("incomplete: " in daemon.cli("bucket", "list"), "the list says what it lacks")
    listed = json.loads(daemon.cli("user", "list", "--json"))
    names = [user["name"] for user in listed["users"]]
    check(set(known) <= set(names) and f"shard {shard}," in listed["incomplete"], listed)
    check("incomplete: " in daemon.cli("user", "list"), "the list says what it lacks")
    unread = next(bucket for bucket in buckets if bucket not in served)
    check(f"may be on shard {shard}" in daemon.cli("bucket", "show", unread, expect=1), f"{unread} is not called missing")
    unread = next(user for user in users if user not in names)
    for verb in ("show", "create", "delete"):
        check(f"may be on shard {shard}" in daemon.cli("user", verb, unread, expect=1), f"{verb} {unread}")
    check("may be on shard" in daemon.cli("user", "delete", known[0], expect=1), "its keys may not all be seen")
    status = json.loads(daemon.cli("status", "--json"))
    check(any("S3 is served in part" in trouble for trouble in status["troubles"]), status)


@fault
def a_damaged_shard_leaves_s3_to_what_is_whole(site):
    """One damaged shard took S3 from every user and bucket, as the names of all of them were read before anything was served."""
    gateway, client = store(site, shards=2)
    daemon = gateway.server
    users = {f"u{number}": (f"KEY{number}", f"secret-of-{number}") for number in range(24)}
    for user, (access_key, secret_key) in users.items():
        with open(site.path("secret"), "w", encoding="utf-8") as file:
            file.write(secret_key)
        daemon.cli("user", "create", user, "--admin", "--access-key", access_key, "--secret-file", site.path("secret"))
    buckets, objects = [f"b{number:02}" for number in range(16)], {f"k{number}": os.urandom(1000 + number) for number in range(16)}
    for bucket in buckets:
        client.create_bucket(Bucket=bucket)
        for key, body in objects.items():
            client.put_object(Bucket=bucket, Key=key, Body=body)

    def kept():
        files = {}
        for name in ("s3.key", "owner.key"):
            with open(os.path.join(daemon.directory, name), "rb") as file:
                files[name] = file.read()
        return files

    before = kept()
    for shard in range(2):
        daemon.stop()
        flip_roots(daemon.drive, shard)
        gateway.start()
        served_in_part(site, gateway, shard, users, buckets, objects)
        check(kept() == before, "no key was made anew")
        daemon.stop()
        flip_roots(daemon.drive, shard)
        gateway.start()
        for keys in users.values():
            client = gateway.client(keys=keys, signature_version="s3v4")
            check([bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == [*buckets, "bkt"], "all buckets are there again")
        for bucket in buckets:
            for key, body in objects.items():
                check(client.get_object(Bucket=bucket, Key=key)["Body"].read() == body, f"{key} of {bucket} is whole again")
