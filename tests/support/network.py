"""A network on this machine whose paths can be cut: a bridge, and hosts in namespaces of their own on it. Needs root."""

import os
import subprocess

from .case import Skip

# What a cut leaves of a path: nothing, or one of its directions.
CUTS = ("the link is down", "nothing it sends arrives", "nothing reaches it")


class Network:
    """A bridge with `count` hosts. `address` is that of this machine on it, `addresses` those of the hosts."""

    def __init__(self, context, count):
        if os.geteuid():
            raise Skip("namespaces of networks need root")
        tag = f"vv{os.getpid() % 100_000}"
        net = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 256}"
        self.address = f"{net}.1"
        self.addresses = [f"{net}.{10 + host}" for host in range(count)]
        self._spaces = [f"{tag}n{host}" for host in range(count)]
        self._links = [f"{tag}h{host}" for host in range(count)]
        try:
            ip("link", "add", tag, "type", "bridge")
        except RuntimeError as error:
            raise Skip(f"no bridges here: {error}") from None
        context.cleanup(lambda: ip("link", "del", tag))
        ip("addr", "add", f"{self.address}/24", "dev", tag)
        ip("link", "set", tag, "up")
        for space, link, address in zip(self._spaces, self._links, self.addresses):
            ip("netns", "add", space)
            context.cleanup(lambda space=space: ip("netns", "del", space))
            ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", link, "master", tag, "up")
            ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "lo", "up")
            ip("-n", space, "link", "set", "eth0", "up")

    def inside(self, host):
        """What starts a program on a host."""
        return ["ip", "netns", "exec", self._spaces[host]]

    def cut(self, host, how):
        """Cuts a host from this machine, and, with its link, from the others; packets vanish."""
        self._cut(host, how, "down", "add")

    def heal(self, host, how):
        """Undoes a cut."""
        self._cut(host, how, "up", "del")

    def _cut(self, host, how, link, route):
        if how == CUTS[0]:
            ip("link", "set", self._links[host], link)
        elif how == CUTS[1]:
            ip("-n", self._spaces[host], "route", route, "blackhole", self.address)
        else:
            ip("route", route, "blackhole", self.addresses[host])

    def cut_between(self, one, other):
        """What one host sends another one is lost."""
        ip("-n", self._spaces[one], "route", "add", "blackhole", self.addresses[other])

    def heal_between(self, one, other):
        """Undoes that."""
        ip("-n", self._spaces[one], "route", "del", "blackhole", self.addresses[other])


def ip(*arguments):
    """Runs `ip`."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
