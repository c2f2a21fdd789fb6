"""Daemons that serve a pool on RADOS together (`rados.join`)."""

import os
import random
import socket
import time

from . import server as servers
from .case import Failure


class Node(servers.Varve):
    """`varve serve` of a pool on RADOS, as one of its nodes."""

    def __init__(self, context, name, settings=None):
        directory = context.path(name)
        os.makedirs(directory)
        self.s3 = f"127.0.0.1:{free_port()}"
        own = {"memory.budget": '"128MiB"', "checkpoint.entries_max": "10000", "rados.join": "true", "s3.listen": f'"{self.s3}"'}
        super().__init__(directory, 0, own | (settings or {}))
        context.cleanup(self.kill)

    def command(self):
        """The command that serves."""
        return [self.binary, "serve", "--data", self.directory, "--nbd", f"unix:{self.socket}"]

    def stand_by(self, context):
        """Starts, and waits until it says that another one serves."""
        open(self.log_path, "w", encoding="utf-8").close()
        self.spawn()
        wait(context, lambda: "stands by" in self.log_tail(), f"{self.directory} stands by")
        context.check(not self.serves(), "one that stands by serves")
        wait(context, self.accepts, f"{self.directory} carries clients")

    def serves(self):
        """Whether it has said that it serves the pool itself, and runs."""
        with open(self.log_path, errors="replace", encoding="utf-8") as log:
            return self.alive() and " serves pool " in log.read()


def free_port():
    """A port that nobody has now, and that the system gives to nobody who connects while the node is down."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        given_from = int(file.read().split()[0])
    ports = range(10_000, given_from) or range(10_000, 60_000)
    for port in random.sample(ports, min(100, len(ports))):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise Failure("no port is free")


def wait(context, is_so, what, seconds=30):
    """Waits for something; returns how long that took."""
    begin = time.monotonic()
    while not is_so():
        context.check(time.monotonic() - begin < seconds, f"not within {seconds} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - begin
