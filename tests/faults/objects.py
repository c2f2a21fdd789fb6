"""S3: no other operation than was asked for, conditions that hold, answers that programs expect."""

import base64
import hashlib
import os
import socket
import subprocess
import tarfile
import time

from support import server as servers
from support.gateway import LISTEN, Gateway, target
from support.server import MIB

from .site import check, fault


def store(site, **settings):
    """A gateway that serves, and its client; there is a bucket `bkt`."""
    settings = {"shards": 1, "journal.lane_size": '"16MiB"', **LISTEN, **{key.replace("__", "."): value for key, value in settings.items()}}
    server = servers.make(site.context, 2 << 30, site.path("data"), settings)
    gateway = Gateway(site.context, server=server)
    gateway.start()
    client = gateway.client(signature_version="s3v4")
    client.create_bucket(Bucket="bkt")
    return gateway, client


def raw(gateway, method, extra, headers=None, body=None):
    """A presigned request with more in its query than the client knows: its signature covers that; status, document."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method, f"{gateway.endpoint}{extra}", headers=headers or {})
    S3SigV4QueryAuth(Credentials(gateway.access_key, gateway.secret_key), "s3", "us-east-1", expires=60).add_auth(request)
    connection = gateway.connection(timeout=60)
    connection.request(method, target(request.url), body=body, headers=headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(errors="replace")


@fault
def unknown_operations_are_not_other_operations(site):
    """A request with a sub-resource that the server did not know was done without it: it deleted or replaced the object."""
    gateway, client = store(site)
    client.put_object(Bucket="bkt", Key="k", Body=b"kept")
    for method, extra in (("DELETE", "/bkt/k?annotation"), ("PUT", "/bkt/k?annotation"), ("GET", "/bkt/k?annotation"), ("GET", "/bkt?abac"),
                          ("DELETE", "/bkt?metadataInventoryTable"), ("PUT", "/bkt/k?renameObject"), ("DELETE", "/bkt/k?unheard=of")):
        status, text = raw(gateway, method, extra, body=b"{}" if method == "PUT" else None)
        check(status == 501 and "NotImplemented" in text, f"{method} {extra}: {status} {text}")
    check(client.get_object(Bucket="bkt", Key="k")["Body"].read() == b"kept", "the object is as it was")


@fault
def copies_obey_conditions(site):
    """A copy that was to happen only where there is no object replaced one."""
    gateway, client = store(site)
    client.put_object(Bucket="bkt", Key="source", Body=b"SOURCE")
    client.put_object(Bucket="bkt", Key="k", Body=b"kept")
    for header, value in (("If-None-Match", "*"), ("If-Match", '"0"')):
        status, text = raw(gateway, "PUT", "/bkt/k", headers={"x-amz-copy-source": "bkt/source", header: value})
        check(status == 412, f"{header}: {status} {text}")
    check(client.get_object(Bucket="bkt", Key="k")["Body"].read() == b"kept", "the object is as it was")


@fault
def headers_in_a_presigned_query_count(site):
    """Metadata, tags and access control that SDKs put into the query of a presigned PUT were dropped."""
    gateway, client = store(site)
    status, text = raw(gateway, "PUT", "/bkt/ps?x-amz-meta-who=me&x-amz-tagging=a%3Db&x-amz-storage-class=STANDARD_IA", body=b"hello")
    check(status == 200, f"{status} {text}")
    head = client.head_object(Bucket="bkt", Key="ps")
    check(head["Metadata"] == {"who": "me"} and head.get("StorageClass") == "STANDARD_IA", str(head))
    check(client.get_object_tagging(Bucket="bkt", Key="ps")["TagSet"] == [{"Key": "a", "Value": "b"}], "the tag is there")


@fault
def settings_that_were_never_made_are_empty(site):
    """Reading a setting that nobody had made was an error, where programs expect an empty document."""
    gateway, client = store(site)
    for extra in ("notification", "logging", "accelerate"):
        status, text = raw(gateway, "GET", f"/bkt?{extra}")
        check(status == 200, f"?{extra}: {status} {text}")
    status, text = raw(gateway, "GET", "/bkt?replication")
    check(status == 404 and "ReplicationConfigurationNotFoundError" in text, f"{status} {text}")
    status, text = raw(gateway, "PUT", "/bkt?accelerate", body=b"<AccelerateConfiguration/>")
    check(status == 501, f"{status} {text}")
    status, text = raw(gateway, "GET", "/bkt?encryption")
    check(status == 404, f"?encryption: {status} {text}")


@fault
def buckets_are_found_by_their_host_name(site):
    """Bucket names in the host name, which SDKs use by default, were not understood."""
    gateway, client = store(site, s3__domain='["s3.test"]')
    client.put_bucket_policy(Bucket="bkt", Policy='{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject",'
                                                '"Resource":"arn:aws:s3:::bkt/pub/*"}]}')
    client.put_object(Bucket="bkt", Key="pub/k", Body=b"hello")
    for path, expected in (("/pub/k", 200), ("/pub/none", 403), ("/k", 403)):
        connection = gateway.connection(timeout=30)
        connection.request("GET", path, headers={"Host": "bkt.s3.test"})
        answer = connection.getresponse()
        body = answer.read()
        check(answer.status == expected, f"{path}: {answer.status} {body}")


@fault
def equal_objects_are_stored_once(site):
    """Equal objects were stored each for itself, and there was no switch."""
    gateway, client = store(site)
    gateway.server.cli("bucket", "set", "bkt", "--dedup", "on")
    body = os.urandom(40 * MIB)
    for number in range(6):
        client.put_object(Bucket="bkt", Key=f"k{number}", Body=body)
    check(hashlib.sha256(client.get_object(Bucket="bkt", Key="k5")["Body"].read()).digest() == hashlib.sha256(body).digest(), "bytes are right")
    stored = gateway.server.settled_bytes()
    check(stored < 60 * MIB, f"{stored / MIB:.0f} MiB are stored for six equal objects of 40 MiB")


@fault
def what_another_shard_has_is_salvaged(site):
    """Blocks of objects that deduplication had found on another shard were listed as unreadable, although that shard was whole."""
    gateway, client = store(site, shards=2)
    server = gateway.server
    server.cli("bucket", "set", "bkt", "--dedup", "on")
    objects = {f"k{number}": os.urandom(8 * MIB) for number in range(2)}
    objects |= {f"copy{number}": objects["k0"] for number in range(12)}  # on both shards
    for key, body in objects.items():
        client.put_object(Bucket="bkt", Key=key, Body=body)
        if key == "k1":
            server.settled_bytes()  # what is in segments can be found
    server.settled_bytes()
    check(server.metric("varve_engine_foreign_blocks_total") > 0, "blocks are found on another shard")
    server.stop()
    server.cli("salvage", "--to", site.path("out"))
    with tarfile.open(site.path("out", "bkt.tar")) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
    check(found == objects, f"{len(found)} objects are salvaged")


@fault
def copies_within_a_bucket_move_no_bytes(site):
    """A copy read and wrote everything again: 5 GiB took a minute, and copies filled the pool."""
    gateway, client = store(site)
    client.put_object(Bucket="bkt", Key="k", Body=os.urandom(256 * MIB))
    before = gateway.server.settled_bytes()
    took = []
    for number in range(5):
        begin = time.monotonic()
        client.copy_object(Bucket="bkt", Key=f"c{number}", CopySource="bkt/k")
        took.append(time.monotonic() - begin)
    stored = gateway.server.settled_bytes() - before
    check(stored < 8 * MIB, f"{stored / MIB:.0f} MiB more are stored")
    client.delete_object(Bucket="bkt", Key="k")
    check(len(client.get_object(Bucket="bkt", Key="c4")["Body"].read()) == 256 * MIB, "copies outlive their source")
    site.context.say(f"copies of 256 MiB took {min(took) * 1000:.0f} to {max(took) * 1000:.0f} ms")


@fault
def volumes_are_served_without_the_sealing_key(site):
    """A data directory without `s3.key` did not start, or made a new key and lost all secrets."""
    gateway, client = store(site)
    client.put_object(Bucket="bkt", Key="k", Body=b"kept")
    server = gateway.server
    server.create_volume("v", MIB)
    server.stop()
    os.remove(os.path.join(server.directory, "s3.key"))
    gateway.start()
    client = gateway.client(signature_version="s3v4")
    check(client.get_object(Bucket="bkt", Key="k")["Body"].read() == b"kept", "the key came from the pool")
    done = subprocess.run(["stat", "-c", "%a", os.path.join(server.directory, "s3.key")], capture_output=True, text=True, check=True)
    check(done.stdout.strip() == "600", f"s3.key has mode {done.stdout}")


@fault
def secrets_of_requests_are_not_logged(site):
    """At level debug the log had the keys that clients encrypt with."""
    gateway, _ = store(site, log__level='"debug"')
    secret = os.urandom(32)
    encoded = base64.b64encode(secret).decode()
    sum_of_key = base64.b64encode(hashlib.md5(secret).digest()).decode()
    raw(gateway, "PUT", "/bkt/k", body=b"x", headers={
        "x-amz-server-side-encryption-customer-algorithm": "AES256", "x-amz-server-side-encryption-customer-key": encoded,
        "x-amz-server-side-encryption-customer-key-MD5": sum_of_key})
    with open(gateway.server.log_path, errors="replace") as file:
        check(encoded not in file.read(), "the key is in the log")


@fault
def half_sent_chunks_are_held_within_the_budget(site):
    """Signed chunks were held whole, whatever the budget: a hundred of them that never ended took the machine's memory."""
    gateway, _ = store(site, memory__budget='"256MiB"')
    open_connections = []
    try:
        for number in range(100):
            connection = socket.create_connection(tuple(gateway.address.split(":")), timeout=5)
            open_connections.append(connection)
            connection.sendall(streamed_head(gateway, f"/bkt/k{number}", 20 * MIB) + b"1000000;chunk-signature=" + b"0" * 64 + b"\r\n")
            connection.settimeout(0.2)
            try:
                for _ in range(15):
                    connection.sendall(bytes(MIB))
            except OSError:
                continue  # It is not read further, or put out: that is what a budget is for.
        refused = [answer for answer in map(answer_so_far, open_connections) if b" 403 " in answer or b" 400 " in answer]
        check(not refused, f"{len(refused)} were refused before their end: {refused[:1]}")
        now, high = gateway.server.resident_mib()
        check(high <= 256 * 1.15, f"{now:.0f} MiB are resident, {high:.0f} at most, of a budget of 256 MiB")
    finally:
        for connection in open_connections:
            connection.close()
    gateway.client(signature_version="s3v4").put_object(Bucket="bkt", Key="after", Body=b"served")


def answer_so_far(connection):
    """What a server has answered yet."""
    connection.setblocking(False)
    try:
        return connection.recv(4096)
    except OSError:
        return b""


def streamed_head(gateway, path, length):
    """The signed head of a PUT whose body comes in signed chunks, of so many bytes together."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    class Streamed(S3SigV4Auth):
        """Signs a body that is signed chunk by chunk."""

        def payload(self, request):
            """What stands for the digest of the body."""
            return "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"

    request = AWSRequest("PUT", f"{gateway.endpoint}{path}", headers={
        "x-amz-decoded-content-length": str(length), "Content-Encoding": "aws-chunked", "Content-Length": str(length + 1000)})
    Streamed(Credentials(gateway.access_key, gateway.secret_key), "s3", "us-east-1").add_auth(request)
    lines = [f"PUT {path} HTTP/1.1", f"Host: {gateway.address}", *(f"{name}: {value}" for name, value in request.headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
