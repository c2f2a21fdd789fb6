"""Compares what became of a suite's cases with the lists of it: SUITE-passing.txt, which only grows, and SUITE-failing.txt, with reasons.

A line is a case, and in the list of failing ones a tab and the reason; `#` begins a comment.
"""

import os

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "conformance")
STATES = ("passed", "failed", "skipped")


def judge(suite, results, partial, update):
    """Prints what differs from the lists; `partial` when not all cases ran, `update` adds what passes now. Returns the exit code."""
    passing, failing = read(suite, "passing"), read(suite, "failing")
    count = {state: sum(1 for found in results.values() if found == state) for state in STATES}
    print(", ".join(f"{count[state]} {state}" for state in STATES))
    lost = [name for name in passing if results.get(name, "passed" if partial else "absent") != "passed"]
    gained = [name for name, state in results.items() if state == "passed" and name not in passing]
    unknown = [name for name, state in results.items() if state != "passed" and name not in failing and name not in passing]
    for title, names in (("passed before, and does not now", lost), ("passes now: run --update", gained), ("fails without a reason", unknown)):
        for name in sorted(names):
            print(f"{title}: {name}")
    if update and gained:
        write(suite, "passing", sorted(set(passing) | set(gained)))
        write(suite, "failing", [f"{name}\t{reason}" for name, reason in failing.items() if name not in gained])
    return 1 if lost or unknown or (gained and not update) else 0


def read(suite, kind):
    """A list: each case, and what stands behind it."""
    with open(_path(suite, kind), encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return dict((line.split("\t") + [""])[:2] for line in lines)


def write(suite, kind, lines):
    """Replaces a list, and leaves its comments."""
    with open(_path(suite, kind), encoding="utf-8") as file:
        comments = [line for line in file if line.startswith("#")]
    with open(_path(suite, kind), "w", encoding="utf-8") as file:
        file.writelines(comments + [line + "\n" for line in lines])


def _path(suite, kind):
    return os.path.join(DIRECTORY, f"{suite}-{kind}.txt")
