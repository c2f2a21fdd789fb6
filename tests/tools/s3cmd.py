"""s3cmd: buckets, files, sync both ways, uploads in parts, copies, lists, policies."""

import os

from support import case
from tools import tree

LARGE_BYTES = 12 << 20


def run(context, gateway):
    """One command after the other."""
    case.need("s3cmd")
    here, back, config = context.path("s3cmd-here"), context.path("s3cmd-back"), context.path("s3cmd.cfg")
    tree.write(config, "\n".join((
        "[default]", f"access_key = {gateway.access_key}", f"secret_key = {gateway.secret_key}", f"host_base = {gateway.address}",
        f"host_bucket = {gateway.address}", "use_https = False", "max_retries = 0", "progress_meter = False")).encode())

    def s3cmd(*arguments, expect=0):
        return context.run("s3cmd", "-c", config, *arguments, expect=expect, env=gateway.environment())

    tree.make(here, 30, context.random)
    large = os.path.join(here, "large")
    tree.write(large, context.random.randbytes(LARGE_BYTES))
    s3cmd("mb", "s3://s3cmd")
    context.check("s3://s3cmd" in s3cmd("ls"), "s3cmd ls shows no bucket")
    s3cmd("sync", "--multipart-chunk-size-mb=5", here + "/", "s3://s3cmd/tree/")
    os.makedirs(back)
    s3cmd("sync", "s3://s3cmd/tree/", back + "/")
    tree.check_equal(context, "s3cmd sync, to and back", here, back)
    context.check("upload:" not in s3cmd("sync", here + "/", "s3://s3cmd/tree/"), "s3cmd uploads again what is there")
    os.remove(os.path.join(here, "d000", "f00000"))
    context.check(s3cmd("sync", "--delete-removed", here + "/", "s3://s3cmd/tree/").count("delete:") == 1, "s3cmd deletes not just one")

    s3cmd("put", "--mime-type=text/x-test", "--add-header=x-amz-meta-color:blue", os.path.join(here, "large"), "s3://s3cmd/one")
    shown = s3cmd("info", "s3://s3cmd/one")
    context.check("text/x-test" in shown and "blue" in shown and str(LARGE_BYTES) in shown, f"s3cmd info:\n{shown}")
    s3cmd("cp", "s3://s3cmd/one", "s3://s3cmd/two")
    s3cmd("modify", "--add-header=x-amz-meta-color:red", "s3://s3cmd/two")
    context.check("red" in s3cmd("info", "s3://s3cmd/two"), "s3cmd modify changes nothing")
    s3cmd("mv", "s3://s3cmd/two", "s3://s3cmd/three")
    s3cmd("get", "s3://s3cmd/three", context.path("s3cmd-three"))
    context.run("cmp", large, context.path("s3cmd-three"))
    s3cmd("setacl", "--acl-public", "s3://s3cmd/three")
    context.check("*anon*" in s3cmd("info", "s3://s3cmd/three"), "s3cmd setacl opens nothing")
    policy = context.path("s3cmd-policy")
    tree.write(policy, b'{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",'
                       b'"Resource":"arn:aws:s3:::s3cmd/tree/*"}]}')
    s3cmd("setpolicy", policy, "s3://s3cmd")
    context.check("arn:aws:s3:::s3cmd/tree/*" in s3cmd("info", "s3://s3cmd"), "s3cmd setpolicy is forgotten")
    s3cmd("delpolicy", "s3://s3cmd")
    context.check(s3cmd("du", "s3://s3cmd/one").split()[0] == str(LARGE_BYTES), "s3cmd du counts otherwise")
    context.check("s3://s3cmd/tree/odd/" in s3cmd("ls", "s3://s3cmd/tree/"), "s3cmd ls shows no folder")
    s3cmd("get", "s3://s3cmd/absent", context.path("absent"), expect=64)
    s3cmd("del", "--recursive", "--force", "s3://s3cmd")
    s3cmd("rb", "s3://s3cmd")
    return "26 commands"
