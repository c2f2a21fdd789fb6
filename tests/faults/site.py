"""What a case is given: a directory and daemons of its own; and the list of all cases."""

import os
import re
import subprocess
import time

import nbd

from support import server as servers
from support.case import Failure
from support.server import GIB, MIB

CASES = []


def fault(function):
    """Adds a case; its name is the function's."""
    CASES.append(function)
    return function


class Site:
    """A case's directory, and the daemon in it: one shard, a drive of 1 GiB."""

    def __init__(self, context, directory):
        self.context = context
        self.directory = directory
        self.daemon = None

    def path(self, *parts):
        """A path inside the case's directory."""
        return os.path.join(self.directory, *parts)

    def serve(self, *arguments, drive_bytes=GIB, directory=None, **settings):
        """A daemon that serves; with arguments, in place of `--drive`."""
        settings = {"shards": 1, "journal.lane_size": '"16MiB"', **{key.replace("__", "."): value for key, value in settings.items()}}
        self.daemon = servers.make(self.context, drive_bytes, directory or self.path("data"), settings)
        if arguments:
            self.say_how(*arguments)
        self.daemon.start()
        return self.daemon

    def say_how(self, *arguments):
        """Changes the options of the next start."""
        base = [self.daemon.binary, "serve", "--data", self.daemon.directory, "--nbd", f"unix:{self.daemon.socket}"]
        self.daemon.command = lambda: [*base, *arguments]

    def refused(self, *arguments):
        """Runs `varve` with these arguments, which has to fail; what it printed."""
        done = subprocess.run([os.path.abspath(os.environ["VARVE"]), *arguments], capture_output=True, text=True, timeout=60, cwd=self.directory)
        check(done.returncode in (1, 2), f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stderr

    def open(self, volume):
        """A client of a volume."""
        handle = nbd.NBD()
        handle.connect_uri(self.daemon.uri(volume))
        return handle

    def write(self, volume, mib, start=0):
        """Writes random data; the MiB that were taken, and the error that ended it."""
        handle = self.open(volume)
        for at in range(mib):
            try:
                handle.pwrite(os.urandom(MIB), (start + at) * MIB)
            except nbd.Error as error:
                return at, error.errno
        return mib, None

    def used_percent(self):
        """How full the pool is."""
        return int(re.search(r"used .*\((\d+) %\)", self.daemon.cli("pool", "show")).group(1))


def check(condition, message):
    """Fails the case unless `condition` holds."""
    if not condition:
        raise Failure(message)


def seconds(action):
    """How long something took."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin
