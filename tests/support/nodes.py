"""Daemons that serve a pool on RADOS together (`rados.join`)."""

import os
import socket
import time

from . import server as servers


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
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait(context, is_so, what, seconds=30):
    """Waits for something; returns how long that took."""
    begin = time.monotonic()
    while not is_so():
        context.check(time.monotonic() - begin < seconds, f"not within {seconds} s: {what}")
        time.sleep(0.02)
    return time.monotonic() - begin
