"""Moves of volumes and buckets between two daemons: the command, what both sides say, and load that follows a volume."""

import hashlib
import http.client
import json
import os
import re
import socket
import subprocess
import threading
import time

from .case import Failure


def call(server, method, path, body=None):
    """The admin API's answer: status and JSON."""
    connection = http.client.HTTPConnection("varve")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(os.path.join(server.directory, "admin.sock"))
    connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def migrate(source, target, *arguments, expect=0):
    """Runs the command; what it printed."""
    return source.cli("pool", "migrate", "--to", target.directory, *arguments, expect=expect)


def volume(server, name):
    """The volume as the API has it, or None."""
    return look(server, name)


def look(server, name, noun="volume"):
    """The volume or bucket as the API has it, or None."""
    status, answer = call(server, "GET", f"/v1/{noun}s/{name}")
    return answer if status == 200 else None


def writable(server, name, noun="volume"):
    """Whether the daemon takes writes to it."""
    found = look(server, name, noun)
    return found is not None and found.get("moves", {"state": "arrived"})["state"] == "arrived"


def snapshots(server, name):
    """Names of its snapshots, whether they are protected, and their identities; oldest first."""
    page = call(server, "GET", f"/v1/snapshots?volume={name}")[1]
    found = sorted(page.get("snapshots", []), key=lambda snapshot: snapshot["id"])
    return [(snapshot["name"], snapshot["protected"], snapshot["identity"]) for snapshot in found]


def content(context, server, name):
    """A hash of all bytes of a volume or snapshot."""
    path = context.path("read.img")
    context.run("nbdcopy", server.uri(name), path)
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    os.remove(path)
    return found


def write(server, name, at, data):
    """Writes over NBD; the errno that refuses it, or 0."""
    import nbd
    handle = nbd.NBD()
    handle.connect_uri(server.uri(name))
    try:
        handle.pwrite(data, at)
        return 0
    except nbd.Error as error:
        return error.errnum
    finally:
        handle.shutdown()


def opens(server, name):
    """Whether clients can open the volume."""
    import nbd
    handle = nbd.NBD()
    try:
        handle.connect_uri(server.uri(name))
        handle.shutdown()
        return True
    except nbd.Error:
        return False


def clean(context, *sides):
    """Fails when something of a move is left."""
    for server in sides:
        for found in call(server, "GET", "/v1/volumes")[1]["volumes"]:
            context.check("moves" not in found, f"left over: {found}")
            left = [name for name, _, _ in snapshots(server, found["name"]) if "@migrate-" in name]
            context.check(not left, f"left over: {left}")


def begin(source, target, *arguments):
    """The command, running."""
    command = [source.binary, "--data", source.directory, "pool", "migrate", "--to", target.directory, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def behind_the_fence(context, source, target, action, name="v", noun="volume"):
    """Runs the command until the source refuses writes, then acts; whether it was in time."""
    run = begin(source, target, f"--{noun}", name)
    while run.poll() is None:
        found = look(source, name, noun)
        if found is None or "moves" in found:
            break
    was_running = run.poll() is None
    action(run)
    run.communicate(timeout=120)
    return was_running


def move_on(context, source, target, name="v", noun="volume"):
    """Runs the command again until it succeeds; what it printed."""
    printed = ""
    for _ in range(5):
        run = begin(source, target, f"--{noun}", name)
        printed = run.communicate(timeout=600)[0]
        if run.returncode == 0:
            return printed
        if f"the source has no {noun} {name}" in printed and writable(target, name, noun):
            return printed  # The one that was killed had done all of it.
        time.sleep(0.5)
    raise Failure(f"it does not go on: {printed}")


def refused_ms(printed):
    """How long writes were refused, in a list; empty when this run did not refuse them."""
    return [int(ms) for ms in re.findall(r"refused for (\d+) ms", printed)]


class Load:
    """Stamped load on a volume, wherever it is."""

    def __init__(self, verifier, *sides):
        self.verifier = verifier
        self.sides = sides
        self.stop = False
        self.failure = None
        self.switches = 0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        """Until told to stop."""
        try:
            while not self.stop:
                for server in self.sides:
                    if opens(server, "v"):
                        self.switches += 1
                        self.verifier.load(server.uri("v"), seconds=600, depth=8, until=lambda: self.stop)
                time.sleep(0.02)
        except Failure as failure:
            self.failure = failure

    def end(self):
        """Stops and waits."""
        self.stop = True
        self.thread.join()
        if self.failure:
            raise self.failure
