"""Programs of this repository that tests use beside `varve`: examples of its crates, built by cargo with what the release binary was built with."""

import os

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Beside `varve` the crates below have the features that they have in the release binary, and are not compiled again.
BUILD = ("cargo", "build", "--quiet", "--release", "-p", "varve", "-p", "varve-tool-bench", "-p", "varve-media-rados",
         "--example", "s3_load", "--example", "rados_conforms")


def s3_load(context):
    """The load of S3 clients; its path."""
    return _built(context, "s3_load")


def rados_conforms(context):
    """The contracts of media on a cluster; its path."""
    return _built(context, "rados_conforms")


def _built(context, name):
    context.run(*BUILD, cwd=REPOSITORY, timeout=800)
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target")), "release", "examples", name)
