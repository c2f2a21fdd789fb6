"""restic: a repository in a bucket: init, two backups, check of all data, restore of each, forget with prune."""

import json
import os

from support import case
from tools import tree

FILES = 1_000 if case.SOAK else 200


def run(context, gateway):
    """Backs up, restores, compares."""
    case.need("restic")
    here = context.path("restic-here")
    environment = {**gateway.environment(), "RESTIC_REPOSITORY": f"s3:{gateway.endpoint}/restic/repository", "RESTIC_PASSWORD": "varve",
                   "RESTIC_CACHE_DIR": context.path("restic-cache"), "RESTIC_PROGRESS_FPS": "0.1"}

    def restic(*arguments):
        return context.run("restic", *arguments, env=environment, cwd=here)

    tree.make(here, FILES, context.random, bytes_max=100_000)
    restic("init")
    restic("backup", ".")
    first = tree.digests(here)
    tree.write(os.path.join(here, "empty"), context.random.randbytes(3 << 20))
    restic("backup", ".")
    snapshots = [snapshot["id"] for snapshot in json.loads(restic("snapshots", "--json"))]
    context.check(len(snapshots) == 2, f"restic lists {len(snapshots)} snapshots")
    restic("check", "--read-data")
    for number, snapshot in enumerate(snapshots):
        restic("restore", snapshot, "--target", context.path(f"restic-{number}"))
    found = tree.digests(context.path("restic-0"))
    context.check(found == first, "restic restores another first backup")
    tree.check_equal(context, "restic, second backup", here, context.path("restic-1"))
    restic("forget", "--keep-last", "1", "--prune")
    restic("check", "--read-data")
    return f"{len(first)} files in two backups"
