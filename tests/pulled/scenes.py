"""The twelve scenes. Each gets a fresh system with items in it, does something to its drives, and returns what became of them.

A scene fails nobody: it returns data. `tally` is of the end, when no more drives are away than the system is to survive; `during` of moments before,
by name. `false_ok` are moments at which the system called itself well while it was not redundant, or lost something after it had said so.
"""

import contextlib
import shutil
import threading
import time
import traceback
from dataclasses import dataclass, field

from support import case

from .ledger import Ledger, Unreadable
from .system import KEPT_S_MAX, Inapplicable

ITEMS = 96
SIZES = (1, 700, 4096, 5000, 65_536, 300_000, 1 << 20, 3 << 20)
FLIPS = 10_000
# How long a system has to notice that a drive does not answer.
NOTICED_S = 4
# And until it has to say so: some count every 10 s.
KNOWN_S_MAX = 20
WRITING_S = 4
WRITERS = 3
SLOW_ITEMS = 40
SLOW_SIZE = 65_536
FILL_SIZE = 3 << 20
FULL_S_MAX = 90
FILLED_MAX = 2000


@dataclass
class Report:
    """What a scene found."""

    tally: object = None
    during: dict = field(default_factory=dict)
    health: list = field(default_factory=list)
    false_ok: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    figures: dict = field(default_factory=dict)

    def data(self):
        """As data of a result."""
        return {"end": self.tally.data() if self.tally else None, "during": {when: tally.data() for when, tally in self.during.items()},
                "health": self.health, "false_ok": self.false_ok, "notes": self.notes, "figures": self.figures}


class Scene:
    """One system in one scene."""

    def __init__(self, system, seed):
        self.system, self.ledger, self.report = system, Ledger(seed), Report()
        self.random = self.ledger.random
        self.pulled = set()

    def begin(self):
        """A system that serves and holds items."""
        self.system.create()
        self.write_all()
        if self.ledger.errors:
            raise RuntimeError(f"{self.ledger.errors} items of {ITEMS} were not acknowledged by a system that is whole")

    def write_all(self):
        """Writes all items anew."""
        self.ledger.put_all(self.system, [(f"item-{number}", self.random.choice(SIZES)) for number in range(ITEMS)])

    def look(self, when):
        """Reads everything, before the end."""
        tally = self.ledger.judge(self.system)
        self.report.during[when] = tally
        return tally

    def end(self):
        """Reads everything, at the end."""
        self.report.tally = self.ledger.judge(self.system)
        return self.report.tally

    def ask(self, when, is_redundant=False):
        """What the system says of itself; that all is well, where it is not redundant, is kept as false, if it says so for long."""
        until = time.monotonic() + KNOWN_S_MAX
        is_ok, text = self.system.health()
        while is_ok and not is_redundant and time.monotonic() < until:
            time.sleep(1)
            is_ok, text = self.system.health()
        self.report.health.append({"when": when, "ok": is_ok, "text": text.replace(self.system.directory, "")[:300]})
        if is_ok and not is_redundant:
            self.report.false_ok.append(when)
        return is_ok

    def claim(self, when):
        """How many more drives may be lost, as it says, with more than that away already: more than none is kept as false, if it says so for long."""
        until = time.monotonic() + KNOWN_S_MAX
        claimed = self.system.claims()
        while claimed and time.monotonic() < until:
            time.sleep(1)
            claimed = self.system.claims()
        if claimed:
            self.report.false_ok.append(f"{when}, of which it says that it survives the loss of {claimed} more")

    def note(self, text):
        """A line of the result."""
        self.report.notes.append(text.replace(self.system.directory, "")[:400])

    def pull(self, *numbers):
        """Drives answer nothing but errors from now on; time is left to see that."""
        for number in numbers:
            self.pulled.add(number)
            self.system.pull(number)
        time.sleep(NOTICED_S)

    def restart(self, detach=(), attach=(), are_lost=False):
        """Ends it in order, moves drives, and starts it again, told that those which are away are lost, or not; whether it serves."""
        self.system.stop()
        self.pulled = self.pulled.union(detach).difference(attach)
        for number in self.pulled:
            self.system.detach(number)
        for number in attach:
            self.system.attach(number)
        try:
            if are_lost:
                self.system.start_without()
            else:
                self.system.start()
            return True
        except Unreadable as why:
            self.note(f"refuses to start: {why}")
            return False

    def replace(self, number):
        """An empty drive is in the place of one that was pulled."""
        self.system.replace(number)
        self.pulled.discard(number)

    @contextlib.contextmanager
    def writing(self):
        """Some clients write meanwhile, each to items of its own."""
        stop = threading.Event()

        def write(first):
            while not stop.is_set():
                number = self.random.randrange(ITEMS // WRITERS) * WRITERS + first
                self.ledger.put(self.system, f"item-{number}", self.random.choice(SIZES))

        writers = [threading.Thread(target=write, args=(first,)) for first in range(WRITERS)]
        for writer in writers:
            writer.start()
        try:
            yield
        finally:
            stop.set()
            for writer in writers:
                writer.join()

    def others(self, *taken):
        """As many drives as may be lost, and none of those."""
        return [number for number in range(self.system.drives) if number not in taken][:self.system.parity]

    def rebuilt(self, number, seconds=KEPT_S_MAX):
        """Waits until the system says that it is redundant, and loses as many other drives as it is to survive."""
        seconds = self.system.wait_ok(seconds)
        self.report.figures["ok_after_s"] = seconds
        if seconds is None:
            is_ok, text = self.system.health()
            self.note(f"did not call itself well in time: {is_ok} {text}")
        lost = self.others(number)
        serves = self.restart(detach=lost, are_lost=True)
        tally = self.end() if serves else None
        if tally is None or tally.lost:
            self.note(f"after that, without drives {lost}: {tally.data() if tally else 'it does not serve'}")
            if seconds is not None:
                self.report.false_ok.append("after the rebuild")
        if tally is None:
            self.restart(attach=lost)
            self.end()


def pull_one(scene):
    """One drive is pulled."""
    scene.begin()
    scene.pull(0)
    scene.look("without it")
    scene.write_all()
    scene.ask("without it")
    scene.end()


def pull_m(scene):
    """As many as it is to survive are pulled, one after the other."""
    scene.begin()
    for number in range(scene.system.parity):
        scene.pull(number)
    scene.look("without them")
    scene.write_all()
    scene.ask("without them")
    scene.end()


def pull_one_more(scene):
    """One more is pulled; errors are right then. All are brought back."""
    scene.begin()
    lost = range(scene.system.parity + 1)
    scene.pull(*lost)
    scene.look("without them")
    scene.ask("without them")
    scene.claim("without them")
    scene.write_all()
    if not scene.restart(attach=lost):
        scene.note("it does not serve with all of its drives")
        return
    scene.end()


def pull_during_writes(scene):
    """A drive is pulled while items are written."""
    scene.begin()
    with scene.writing():
        time.sleep(1)
        scene.pulled.add(1)
        scene.system.pull(1)
        time.sleep(WRITING_S)
    scene.report.figures["writes_refused"] = scene.ledger.errors
    scene.ask("without it")
    scene.end()


def stale_drive(scene):
    """A drive is pulled, everything is overwritten, and it comes back at a restart; then others are lost."""
    scene.begin()
    scene.pull(0)
    scene.write_all()
    if not scene.restart(attach=[0]):
        return
    scene.look("with the drive that missed writes")
    is_ok = scene.ask("with the drive that missed writes", is_redundant=True)  # It may have caught up already.
    seconds = scene.system.wait_ok(60)
    scene.report.figures["ok_after_s"] = seconds
    if not is_ok and seconds is None:
        scene.end()
        return
    lost = scene.others(0)
    tally = scene.end() if scene.restart(detach=lost, are_lost=True) else None
    if tally is None or tally.lost:
        scene.report.false_ok.append("before other drives were lost")


def stale_half(scene):
    """As many drives as may be lost miss everything that is overwritten; then only these, and others too few to read it, are there."""
    scene.begin()
    count = scene.system.parity
    stale = list(range(scene.system.drives - count, scene.system.drives))
    scene.pull(*stale)
    scene.write_all()
    first = list(range(count))
    if scene.restart(detach=first, attach=stale):
        scene.look("the stale ones and too few others")
        scene.ask("the stale ones and too few others")
    if not scene.restart(attach=first):
        scene.note("it does not serve with all of its drives")
        return
    scene.end()


def replace_degraded(scene):
    """A drive is lost, items are written without it, and it is replaced while more are written; then others are lost."""
    scene.begin()
    scene.pull(0)
    scene.write_all()
    with scene.writing():
        scene.replace(0)
        time.sleep(WRITING_S)
    scene.rebuilt(0)


def second_loss(scene):
    """A drive is replaced, and another one is lost while it is rebuilt."""
    scene.begin()
    scene.pull(0)
    scene.write_all()
    scene.replace(0)
    scene.report.figures["seen_rebuilding"] = scene.system.wait_rebuilding()
    scene.pull(1)
    scene.ask("without another one")
    tally = scene.look("without another one")
    if scene.system.parity > 1:
        scene.report.tally = tally
    else:
        scene.note("it survives one loss, and had two; then the second drive came back as it was")
        if scene.restart(attach=[1]):
            scene.end()


def kill_rebuild(scene):
    """A drive is replaced, and everything is killed while it is rebuilt."""
    if scene.system.immortal:
        raise Inapplicable(scene.system.immortal)
    scene.begin()
    scene.pull(0)
    scene.write_all()
    scene.replace(0)
    scene.report.figures["seen_rebuilding"] = scene.system.wait_rebuilding()
    scene.system.kill()
    scene.system.start()
    scene.look("after the kill")
    scene.rebuilt(0)


def flipped_bits(scene):
    """10,000 bits of one drive are flipped while it is stopped; after a scrub others are lost."""
    scene.begin()
    scene.system.stop()
    scene.system.flip(0, FLIPS)
    try:
        scene.system.start()
    except Unreadable as why:
        scene.note(f"refuses to start with the damaged drive: {why}")
        scene.system.detach(0)
        scene.system.start()
        scene.end()
        return
    scene.look("with the flipped bits")
    scene.ask("after damaged items were read")
    scene.system.scrub()
    scene.ask("after a scrub", is_redundant=True)
    scene.rebuilt(0, scene.system.flipped_s_max)


def slow_drive(scene):
    """One drive does 25 operations a second."""
    scene.begin()
    before = latencies(scene, "before")
    scene.system.slow(0)
    after = latencies(scene, "slow")
    scene.report.figures |= {"put_p99_ms": [before[0], after[0]], "get_p99_ms": [before[1], after[1]]}
    scene.ask("with a slow drive", is_redundant=True)
    scene.end()


def full_degraded(scene):
    """A drive is lost, and the rest is filled until it refuses; what is deleted makes room."""
    scene.begin()
    scene.pull(0)
    until, filled = time.monotonic() + FULL_S_MAX, 0
    while time.monotonic() < until and filled < FILLED_MAX:
        if not scene.ledger.put(scene.system, f"fill-{filled}", FILL_SIZE):
            break
        filled += 1
    scene.report.figures["filled_mib"] = filled * FILL_SIZE >> 20
    scene.look("full")
    scene.ask("full")
    deleted = 0
    for number in range(0, filled, 2):
        try:
            scene.system.delete(f"fill-{number}")
        except Unreadable as why:
            scene.note(f"a deletion on a full system: {why}")
            break
        scene.ledger.forget(f"fill-{number}")
        deleted += 1
    until = time.monotonic() + 60
    while not scene.ledger.put(scene.system, "after-full", 1 << 20):
        if time.monotonic() > until:
            scene.note(f"refuses writes 60 s after {deleted} of {filled} items were deleted")
            break
        time.sleep(1)
    if scene.restart():
        scene.end()


def latencies(scene, name):
    """p99 of puts and gets of one size, one at a time, in ms."""
    puts, gets = [], []
    for number in range(SLOW_ITEMS):
        key = f"slow-{name}-{number}"
        puts.append(timed(lambda k=key: scene.ledger.put(scene.system, k, SLOW_SIZE)))
    for number in range(SLOW_ITEMS):
        gets.append(timed(lambda k=f"slow-{name}-{number}": attempt(lambda: scene.system.get(k, SLOW_SIZE))))
    return [round(sorted(found)[-1 - len(found) // 100] * 1000, 1) for found in (puts, gets)]


def attempt(action):
    """Does something that may fail: its time counts all the same."""
    try:
        action()
    except Unreadable:
        pass


def timed(action):
    """Seconds that it takes."""
    begin = time.monotonic()
    action()
    return time.monotonic() - begin


SCENES = {
    "pull-1": pull_one, "pull-m": pull_m, "pull-m+1": pull_one_more, "pull-during-writes": pull_during_writes, "stale": stale_drive,
    "stale-alone": stale_half, "replace-degraded": replace_degraded, "second-loss": second_loss, "kill-in-rebuild": kill_rebuild,
    "flipped-bits": flipped_bits, "slow-drive": slow_drive, "full-degraded": full_degraded,
}


def play(kind, name, path, seed):
    """One scene of one kind of system, as data; everything of it is gone then."""
    begin = time.monotonic()
    context = case.Context(path, seed)
    system = kind(context, path)
    scene = Scene(system, seed)
    found = {}
    try:
        SCENES[name](scene)
    except Inapplicable as why:
        found["inapplicable"] = str(why)
    except Exception as error:  # noqa: BLE001: a scene that broke is a result, and the others go on
        found["broke"] = f"{type(error).__name__}: {error}"[:600]
        traceback.print_exc()
    finally:
        try:
            system.kill()
        except Exception:  # noqa: BLE001: one that cannot be killed has to be ended by its clean-ups
            pass
        context.close()
        shutil.rmtree(path, ignore_errors=True)
    scene.report.notes += system.notes
    return {**scene.report.data(), **found, "seconds": round(time.monotonic() - begin, 1)}
