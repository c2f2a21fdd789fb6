"""Drives: where they are, what else is on them, hosts that are full, pools that were half made."""

import os
import shutil
import socket
import subprocess
import time

from support import case
from support.case import Skip
from support.server import GIB, MIB

from .site import check, fault


@fault
def a_drive_is_found_under_another_name(site):
    """A drive that was renamed, and one whose data directory was lost, could not be served."""
    daemon = site.serve()
    daemon.create_volume("a", 64 * MIB)
    site.open("a").pwrite(b"kept" * 1024, 0)
    daemon.stop()
    os.rename(daemon.drive, site.path("data", "renamed"))
    site.say_how()
    daemon.start()
    check(bytes(site.open("a").pread(4, 0)) == b"kept", "the drive was renamed")
    daemon.stop()
    os.rename(site.path("data", "renamed"), site.path("elsewhere"))
    said = site.refused("--data", daemon.directory, "serve")
    check("is not at" in said and "--drive" in said, said)
    site.say_how("--drive", site.path("elsewhere"))
    daemon.start()
    daemon.stop()
    site.say_how()
    daemon.start()
    check(bytes(site.open("a").pread(4, 0)) == b"kept", "the drive was moved, and remembered where it is")
    daemon.stop()
    site.serve("--drive", site.path("elsewhere"), directory=site.path("other"))
    check(bytes(site.open("a").pread(4, 0)) == b"kept", "the data directory was lost")


@fault
def an_old_copy_of_a_drive_is_not_served(site):
    """A copy that lay beside a drive was served when the drive was wiped, and check called it clean."""
    daemon = site.serve()
    daemon.create_volume("a", 64 * MIB)
    site.open("a").pwrite(b"old1" * 1024, 0)
    daemon.stop()
    copy = site.path("data", "copy")
    shutil.copytree(daemon.drive, copy)
    site.say_how()
    daemon.start()
    site.open("a").pwrite(b"new1" * 1024, 0)
    daemon.stop()
    os.rename(daemon.drive, site.path("aside"))
    for command in ("serve", "check"):
        said = site.refused("--data", daemon.directory, command)
        check("perhaps an older copy" in said and copy in said, said)
    os.rename(site.path("aside"), daemon.drive)
    daemon.start()
    check(bytes(site.open("a").pread(4, 0)) == b"new1", "the drive came back")
    daemon.stop()
    shutil.rmtree(daemon.drive)
    site.say_how("--drive", copy)
    daemon.start()
    check(bytes(site.open("a").pread(4, 0)) == b"old1", "the copy was named")


@fault
def a_drive_keeps_its_size(site):
    """A pool was remembered with a size that it does not have."""
    daemon = site.serve()
    daemon.stop()
    for data in (daemon.directory, site.path("other")):
        said = site.refused("--data", data, "serve", "--drive", f"{daemon.drive}=3GiB")
        check("is a drive of 1 GiB, and cannot become one of 3 GiB" in said, said)
    daemon.start()
    check("1 GiB" in daemon.cli("pool", "show"), daemon.cli("pool", "show"))


@fault
def a_port_that_is_taken_leaves_no_pool(site):
    """A first start that could not listen left a pool behind."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for flag in ("--nbd", "--s3", "--admin"):
            others = {"--nbd": "unix:nbd.sock", "--s3": "none", flag: address}
            flags = [word for pair in others.items() for word in pair]
            said = site.refused("--data", "d", "serve", "--drive", "drive=1GiB", *flags)
            check("in use" in said and flag in said, said)
            check(not os.path.exists(site.path("drive")), f"{flag}: a drive was made")


@fault
def other_data_is_refused_by_name(site):
    """A device with an old file system was refused without a name, or a way on."""
    case.need("mkfs.ext4")
    with open(site.path("disk"), "wb") as file:
        file.truncate(300 * MIB)
    site.context.run("mkfs.ext4", "-q", "-F", site.path("disk"))
    said = site.refused("--data", "d", "serve", "--nbd", "unix:nbd.sock", "--s3", "none", "--drive", "disk")
    check("contains other data (ext2, ext3 or ext4)" in said and "blkdiscard" in said, said)


@fault
def a_full_host_on_btrfs_takes_nothing_away(site):
    """btrfs has no room for changes in place once it is full: the pool stopped, and did not start again."""
    case.need("mkfs.btrfs")
    if os.geteuid() != 0:
        raise Skip("needs root and loop devices")
    image, mount = site.path("b.img"), site.path("m")
    with open(image, "wb") as file:
        file.truncate(1200 * MIB)
    os.makedirs(mount)
    site.context.run("mkfs.btrfs", "-q", image)
    if subprocess.run(["mount", "-o", "loop", image, mount], capture_output=True).returncode != 0:
        raise Skip("no btrfs in this kernel, or no loop devices")
    site.context.cleanup(lambda: subprocess.run(["umount", "-l", mount]))
    daemon = site.serve("--drive", f"{mount}/drive=4GiB")
    daemon.create_volume("g", 4 * GIB)
    taken, error = site.write("g", 2000)
    check(error in ("ENOSPC", "EIO"), f"{taken} MiB were taken, and then {error}")
    time.sleep(2)
    check(len(site.open("g").pread(MIB, 0)) == MIB, "reads go on")
    daemon.kill()
    daemon.start()
    check(len(site.open("g").pread(MIB, (taken - 1) * MIB)) == MIB, "all is there after a restart")
    daemon.delete_volume("g")
    daemon.create_volume("h", 100 * MIB)
    site.context.wait_for(lambda: site.write("h", 50)[1] is None, "room after the deletion", seconds=60)


@fault
def a_socket_replaces_no_file(site):
    """`--nbd unix:PATH`, and `--admin` alike, deleted whatever was at the path."""
    path = site.path("disk.img")
    with open(path, "w", encoding="utf-8") as file:
        file.write("precious")
    for flag in ("--nbd", "--admin"):
        others = {"--nbd": "unix:nbd.sock", flag: f"unix:{path}"}
        flags = [word for pair in others.items() for word in pair]
        said = site.refused("--data", "d", "serve", *flags, "--s3", "none", "--drive", "drive=1GiB")
        with open(path, encoding="utf-8") as file:
            check(file.read() == "precious", f"{flag}: the file is there")
        check(path in said, said)


@fault
def other_users_can_open_nothing(site):
    """Files of drives could be read by everybody where the directory around them let them."""
    os.chmod(site.directory, 0o755)
    mask = os.umask(0o022)
    try:
        daemon = site.serve("--drive", f"{site.path('elsewhere')}=1GiB")
    finally:
        os.umask(mask)
    for root in (site.path("elsewhere"), daemon.directory):
        for directory, _, files in os.walk(root):
            for name in files:
                mode = os.stat(os.path.join(directory, name)).st_mode & 0o777
                is_open = mode & 0o077 and name not in ("serve.log", "varve.toml")  # These are the test's own.
                check(not is_open, f"{name} has mode {mode:o}")
    with open(f"/proc/{daemon.pid}/net/tcp", encoding="utf-8") as file:
        inodes = {line.split()[9] for line in file.readlines()[1:] if line.split()[3] == "0A"}
    sockets = [os.readlink(f"/proc/{daemon.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{daemon.pid}/fd")]
    check(not any(link.startswith("socket:[") and link[8:-1] in inodes for link in sockets), "nothing listens on TCP unless asked to")


@fault
def a_creation_that_was_killed_is_repeated(site):
    """A pool whose creation was killed at the wrong moment was neither created again nor opened."""
    binary = os.path.abspath(os.environ["VARVE"])
    for number in range(12):
        directory = site.path(f"d{number}")
        os.makedirs(directory)
        drives = [word for name in ("a", "b")[: 1 + number % 2] for word in ("--drive", os.path.join(directory, name) + "=640MiB")]
        command = [binary, "--data", directory, "serve", "--nbd", "unix:nbd.sock", "--s3", "none", "--shards", "1", *drives]
        with open(os.path.join(directory, "log"), "w", encoding="utf-8") as log:
            first = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
            time.sleep(site.context.random.uniform(0, 0.3))
            first.kill()
            first.wait()
            second = site.context.spawn(*command, stdout=log, stderr=log, cwd=directory)
        site.context.wait_for(lambda: os.path.exists(os.path.join(directory, "nbd.sock")) or second.poll() is not None, "a start", seconds=30)
        with open(os.path.join(directory, "log"), encoding="utf-8") as log:
            check(second.poll() is None, f"round {number}: exit {second.poll()}\n{log.read()}")
        case.end(second)
