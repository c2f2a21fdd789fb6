"""AWS CLI: the high-level commands on files and folders, and some of the low-level ones."""

import json
import os
import urllib.request

from support import case
from tools import tree

LARGE_BYTES = 21 << 20


def run(context, gateway):
    """One command after the other."""
    case.need("aws")
    here, back = context.path("aws-here"), context.path("aws-back")
    environment = {**gateway.environment(), "AWS_MAX_ATTEMPTS": "1"}

    def aws(*arguments, expect=0):
        return context.run("aws", "--endpoint-url", gateway.endpoint, *arguments, expect=expect, env=environment)

    def api(*arguments):
        return json.loads(aws("s3api", *arguments, "--bucket", "aws", "--output", "json") or "{}")

    tree.make(here, 50, context.random)
    large = os.path.join(here, "large")
    tree.write(large, context.random.randbytes(LARGE_BYTES))
    aws("s3", "mb", "s3://aws")
    aws("s3", "sync", "--no-progress", here, "s3://aws/tree")
    aws("s3", "sync", "--no-progress", "s3://aws/tree", back)
    tree.check_equal(context, "aws s3 sync, to and back", here, back)
    context.check(not aws("s3", "sync", "--no-progress", here, "s3://aws/tree"), "aws s3 sync carries again what is there")
    aws("s3", "cp", "--no-progress", "s3://aws/tree/large", "s3://aws/copy")
    aws("s3", "mv", "--no-progress", "s3://aws/copy", context.path("aws-large"))
    context.run("cmp", large, context.path("aws-large"))
    url = aws("s3", "presign", "s3://aws/tree/d000/f00001").strip()
    with urllib.request.urlopen(url, timeout=30) as answer, open(os.path.join(here, "d000", "f00001"), "rb") as file:
        context.check(answer.read() == file.read(), "a presigned URL gives other bytes")
    listed = api("list-objects-v2", "--prefix", "tree/", "--page-size", "7")["Contents"]
    context.check(len(listed) == len(tree.digests(here)), f"aws s3api lists {len(listed)} objects")
    api("put-object", "--key", "sum", "--body", large, "--checksum-algorithm", "SHA256")
    told = api("head-object", "--key", "sum", "--checksum-mode", "ENABLED")
    context.check(told["ContentLength"] == LARGE_BYTES and "ChecksumSHA256" in told, f"aws s3api head-object: {told}")
    aws("s3", "rb", "--force", "s3://aws")
    return "11 commands"
