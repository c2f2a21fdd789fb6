"""Clients that go on while drives are pulled: one verifies a volume of its own, others put items. An error is a fault, unless the system was killed."""

import threading

from support.case import Failure
from support.verifier import Verifier

VOLUME = "verified"
VOLUME_BYTES = 32 << 20
DEPTH = 16
# Nobody waits longer than that for the end of a scene.
LOAD_S_MAX = 3600


class Clients:
    """What they wrote in all lives of a system, and what went wrong."""

    def __init__(self, scene, sizes):
        self.scene, self.sizes = scene, sizes
        self.system, self.ledger = scene.system, scene.ledger
        self.system.pool.create_volume(VOLUME, VOLUME_BYTES)
        self.verifier = Verifier(scene.random, VOLUME_BYTES)
        self.faults, self.is_killed, self.done = [], False, threading.Event()

    def __enter__(self):
        self.done.clear()
        self.is_killed = False
        self.threads = [threading.Thread(target=self._verify), threading.Thread(target=self._put)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for thread in self.threads:
            thread.join()
        if self.faults:
            raise Failure(f"clients met errors: {self.faults[:3]}\n{self.system.pool.log_tail()}")

    def kill(self):
        """Kills the system under them; they end."""
        self.is_killed = True
        self.system.kill()

    def judge(self, when):
        """Everything that was acknowledged is there."""
        self.verifier.verify(self.system.pool.uri(VOLUME))
        tally = self.ledger.judge(self.system)
        if tally.lost:
            raise Failure(f"{when}: {tally.data()}\n{self.system.pool.log_tail()}")

    def _verify(self):
        try:
            is_there = self.verifier.load(self.system.pool.uri(VOLUME), LOAD_S_MAX, DEPTH, self.done.is_set)
            if not is_there and not self.is_killed:
                self.faults.append("the connection to the volume was lost")
        except Exception as error:  # noqa: BLE001: whoever waits judges it
            self.faults.append(f"{type(error).__name__}: {error}")

    def _put(self):
        random = self.scene.random
        while not self.done.is_set():
            errors = self.ledger.errors
            self.ledger.put(self.system, f"item-{random.randrange(len(self.ledger.items))}", random.choice(self.sizes))
            if self.ledger.errors > errors:
                if not self.is_killed:
                    self.faults.append("an item was not acknowledged")
                return
