"""rclone: a tree goes to a bucket and back, compared by checksum; a second sync carries what changed and nothing else; a large file in parts."""

import json
import os
import shutil

from support import case
from tools import tree

FILES = 10_000 if case.SOAK else 1_000
LARGE_BYTES = 23 << 20


def run(context, gateway):
    """Syncs both ways."""
    case.need("rclone")
    here, back = context.path("rclone-here"), context.path("rclone-back")
    environment = {**gateway.environment(), "RCLONE_CONFIG_V_TYPE": "s3", "RCLONE_CONFIG_V_PROVIDER": "Other",
                   "RCLONE_CONFIG_V_ENDPOINT": gateway.endpoint, "RCLONE_CONFIG_V_ENV_AUTH": "true",
                   "RCLONE_CONFIG_V_CHUNK_SIZE": "5Mi", "RCLONE_CONFIG_V_UPLOAD_CUTOFF": "10Mi",
                   "RCLONE_CONFIG": context.path("rclone.conf"), "RCLONE_RETRIES": "1", "RCLONE_LOW_LEVEL_RETRIES": "1"}
    tree.write(environment["RCLONE_CONFIG"], b"")

    def rclone(*arguments, expect=0):
        return context.run("rclone", *arguments, env=environment, expect=expect)

    def transferred(source, target):
        """Syncs, and returns how many files rclone says it carried."""
        log = rclone("sync", source, target, "--checksum", "--transfers", "16", "--checkers", "16", "--fast-list",
                     "--use-json-log", "--stats-log-level", "NOTICE", "--stats", "1h")
        return json.loads(log.strip().splitlines()[-1])["stats"]["transfers"]

    tree.make(here, FILES, context.random)
    tree.write(os.path.join(here, "large"), context.random.randbytes(LARGE_BYTES))
    files = len(tree.digests(here))
    rclone("mkdir", "v:rclone")
    count = transferred(here, "v:rclone/tree")
    context.check(count == files, f"rclone carried {count} of {files} files")
    rclone("check", here, "v:rclone/tree", "--checkers", "16", "--fast-list")
    count = transferred("v:rclone/tree", back)
    context.check(count == files, f"rclone brought {count} of {files} files back")
    tree.check_equal(context, "rclone, to and back", here, back)

    shutil.rmtree(os.path.join(here, "d000"))
    tree.write(os.path.join(here, "new"), b"new")
    tree.write(os.path.join(here, "empty"), b"no more")
    count = transferred(here, "v:rclone/tree")
    context.check(count == 2, f"two files changed, rclone carried {count}")
    rclone("sync", "v:rclone/tree", back, "--checksum", "--fast-list")
    tree.check_equal(context, "rclone, after a change", here, back)
    sizes = json.loads(rclone("size", "--json", "v:rclone/tree"))
    context.check(sizes["count"] == len(tree.digests(here)), f"rclone counts {sizes}")
    rclone("check", "--download", os.path.join(here, "odd"), "v:rclone/tree/odd")
    rclone("moveto", "v:rclone/tree/large", "v:rclone/moved")
    context.check(rclone("hashsum", "MD5", "v:rclone/moved").split()[0] == rclone("hashsum", "MD5", os.path.join(here, "large")).split()[0],
                  "the sum of a moved file in parts is another one")
    rclone("purge", "v:rclone")
    return f"{files} files both ways"
