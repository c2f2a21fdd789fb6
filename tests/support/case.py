"""Runs one test: temporary directory, PASS or FAIL, exit code, and clean-up.

A test file is `case.main(test)`, where `test(context)` raises `Failure` (through
`context.check`) when the behaviour is not there, and `Skip` when the machine lacks
what the test needs.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SOAK = os.environ.get("SOAK") == "1"


class Failure(Exception):
    """The behaviour under test is not there."""


class Skip(Exception):
    """This machine lacks what the test needs."""


class Context:
    """What a test is given: a directory of its own, randomness, and clean-up."""

    def __init__(self, directory, seed):
        self.directory = directory
        self.seed = seed
        self.random = random.Random(seed)
        self._cleanups = []

    def path(self, *parts):
        """A path inside the test's directory."""
        return os.path.join(self.directory, *parts)

    def cleanup(self, action):
        """Calls `action` when the test ends, last registered first."""
        self._cleanups.append(action)

    def check(self, condition, message):
        """Fails the test unless `condition` holds."""
        if not condition:
            raise Failure(message)

    def say(self, message):
        """A line of progress."""
        print(f"    {message}", flush=True)

    def run(self, *command, timeout=600, expect=0, **options):
        """Runs a program; fails the test on another exit code than `expect` (None: any)."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=timeout, **options)
        if expect is not None and done.returncode != expect:
            raise Failure(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout

    def spawn(self, *command, **options):
        """Starts a program that is ended, by its pid, when the test ends."""
        process = subprocess.Popen(command, **options)
        self.cleanup(lambda: end(process))
        return process

    def wait_for(self, condition, what, seconds=30):
        """Polls `condition` until it holds; returns the seconds it took."""
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > seconds:
                raise Failure(f"{what}: not within {seconds} s")
            time.sleep(0.01)
        return time.monotonic() - begin

    def close(self):
        """Runs the clean-ups; one that fails does not stop the others."""
        while self._cleanups:
            try:
                self._cleanups.pop()()
            except Exception:
                traceback.print_exc()


def end(process):
    """Ends a process that this test started, politely first."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def need(*programs):
    """Skips the test unless all `programs` are installed."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    absent = [program for program in programs if not shutil.which(program, path=path)]
    if absent:
        raise Skip(f"{', '.join(absent)} not installed")


def main(test):
    """Runs `test` and exits: 0 passed, 1 failed, 77 skipped."""
    name = os.path.basename(sys.argv[0])
    os.environ["PATH"] = "/usr/bin:/usr/sbin:/sbin:" + os.environ["PATH"]  # nbdsh needs Debian's python3
    seed = int(os.environ.get("SEED", random.SystemRandom().randrange(2**32)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    directory = tempfile.mkdtemp(prefix=f"varve-{name}-", dir=os.environ.get("TEST_DIR", "/var/tmp"))
    context = Context(directory, seed)
    begin = time.monotonic()
    outcome, code, why = "PASS", 0, ""
    try:
        test(context)
    except Skip as skip:
        outcome, code = f"SKIP ({skip})", 77
    except Exception as failure:
        if isinstance(failure, Failure):
            print(f"    {failure}")
        else:
            traceback.print_exc()
        # The line that is repeated at the end of a long run has to say what went wrong.
        reason = " ".join(str(failure).split())[:500] or type(failure).__name__
        outcome, code, why = "FAIL", 1, f" (SEED={seed} repeats its random choices): {reason}"
    finally:
        context.close()
        if code == 1 and os.environ.get("KEEP") == "1":
            print(f"    kept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)
    print(f"{outcome} {name} {time.monotonic() - begin:.1f} s{why}", flush=True)
    sys.exit(code)
