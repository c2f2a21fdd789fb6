"""boto3: the transfer manager, presigned requests, checksums, ranges, conditions, versions, copies, lists, settings."""

import base64
import datetime
import hashlib
import io
import json
import os
import urllib.error
import urllib.parse
import urllib.request
import zlib

from tools import tree

BUCKET = "sdk"
PART = 5 << 20


def run(context, gateway):
    """One feature after the other, each on keys of its own."""
    client = gateway.client(signature_version="s3v4")
    client.create_bucket(Bucket=BUCKET)
    features = (transfers, expectations, presigned, forms, checksums, ranges, conditions, versions, copies, lists, settings, encryption, lock)
    for feature in features:
        feature(context, client)
    return ", ".join(feature.__name__ for feature in features)


def transfers(context, client):
    """Files of several parts go up, down and across by many threads."""
    from boto3.s3.transfer import TransferConfig
    config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART, max_concurrency=4)
    body = context.random.randbytes(3 * PART + 12345)
    extra = {"ContentType": "text/x-test", "Metadata": {"color": "blue"}}
    client.upload_fileobj(io.BytesIO(body), BUCKET, "transfer", Config=config, ExtraArgs=extra)
    head = client.head_object(Bucket=BUCKET, Key="transfer")
    wanted = hashlib.md5(b"".join(hashlib.md5(body[at:at + PART]).digest() for at in range(0, len(body), PART))).hexdigest()
    context.check(head["ETag"] == f'"{wanted}-4"', f"a file of four parts has the tag {head['ETag']}")
    context.check((head["ContentType"], head["Metadata"]) == ("text/x-test", {"color": "blue"}), f"a file of four parts has {head}")
    client.copy({"Bucket": BUCKET, "Key": "transfer"}, BUCKET, "transferred", Config=config)
    for key in ("transfer", "transferred"):
        found = io.BytesIO()
        client.download_fileobj(BUCKET, key, found, Config=config)
        context.check(found.getvalue() == body, f"{key} comes back otherwise")
    second = client.get_object(Bucket=BUCKET, Key="transfer", PartNumber=2)
    context.check(second["Body"].read() == body[PART:2 * PART] and second["PartsCount"] == 4, "part 2 is another one")
    span = client.get_object(Bucket=BUCKET, Key="transferred", Range=f"bytes={PART - 3}-{PART + 2}")["Body"].read()
    context.check(span == body[PART - 3:PART + 3], "a range over a part's border differs")
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="aborted")["UploadId"]
    client.upload_part(Bucket=BUCKET, Key="aborted", UploadId=upload, PartNumber=1, Body=b"x")
    listed = client.list_parts(Bucket=BUCKET, Key="aborted", UploadId=upload)["Parts"]
    context.check([part["Size"] for part in listed] == [1], f"parts: {listed}")
    client.abort_multipart_upload(Bucket=BUCKET, Key="aborted", UploadId=upload)
    fails(context, client, 404, "NoSuchUpload", "list_parts", Bucket=BUCKET, Key="aborted", UploadId=upload)
    context.check("Uploads" not in client.list_multipart_uploads(Bucket=BUCKET), "an aborted upload is listed")


def expectations(context, client):
    """An answer without `100 Continue` does not spoil the next one on its connection: botocore confuses them unless it is closed."""
    for _ in range(3):
        client.put_object(Bucket=BUCKET, Key="empty", Body=io.BytesIO())
        found = client.put_object(Bucket=BUCKET, Key="full", Body=io.BytesIO(b"full"))
        context.check(found.get("ETag") == f'"{hashlib.md5(b"full").hexdigest()}"', f"a PUT after an empty one answers {found}")
        fails(context, client, 404, "NoSuchBucket", "put_object", Bucket=BUCKET + "-none", Key="full", Body=io.BytesIO(b"full"))
        found = client.put_object(Bucket=BUCKET, Key="full", Body=io.BytesIO(b"full"))
        context.check("ETag" in found, f"a PUT after a refused one answers {found}")


def presigned(context, client):
    """URLs that carry their signature get, put and are refused when they were changed."""
    def url(operation, **parameters):
        return client.generate_presigned_url(operation, {"Bucket": BUCKET, "Key": "pre signed/ü", **parameters}, ExpiresIn=60)

    code, _, _ = web("PUT", url("put_object", ContentType="text/plain"), b"by URL", {"Content-Type": "text/plain"})
    context.check(code == 200, f"a presigned PUT answers {code}")
    code, headers, body = web("GET", url("get_object", ResponseContentType="x/y"))
    context.check((code, body, headers["Content-Type"]) == (200, b"by URL", "x/y"), f"a presigned GET answers {code} {body}")
    context.check(web("HEAD", url("head_object"))[0] == 200, "a presigned HEAD is refused")
    code, _, body = web("GET", url("get_object").replace("ü", "u").replace("%C3%BC", "u"))
    context.check(code == 403 and b"SignatureDoesNotMatch" in body, f"a presigned URL of another key answers {code} {body}")
    code, _, body = web("PUT", url("get_object"), b"")
    context.check(code == 403, f"a presigned GET used as PUT answers {code} {body}")
    code, _, body = web("GET", url("get_object").replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
    context.check(code == 403, f"a presigned URL made longer answers {code} {body}")
    context.check(web("GET", f"{client.meta.endpoint_url}/{BUCKET}/ranges")[0] == 403, "an unsigned GET is served")


def forms(context, client):
    """A browser's form puts a file under the conditions of its policy."""
    post = client.generate_presigned_post(BUCKET, "form/${filename}", Fields={"acl": "private"},
                                          Conditions=[{"acl": "private"}, ["content-length-range", 1, 100]], ExpiresIn=60)
    for body, wanted in ((b"by form", 204), (b"x" * 101, 400)):
        parts = [f'--limit\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode() for name, value in post["fields"].items()]
        parts.append(b'--limit\r\nContent-Disposition: form-data; name="file"; filename="f.txt"\r\n\r\n' + body + b"\r\n--limit--\r\n")
        code, _, answer = web("POST", post["url"], b"".join(parts), {"Content-Type": "multipart/form-data; boundary=limit"})
        context.check(code == wanted, f"a form with {len(body)} bytes answers {code} {answer}")
    context.check(get(client, "form/f.txt") == b"by form", "a form's file differs")


def checksums(context, client):
    """Sums are computed, compared and told."""
    body = context.random.randbytes(100_000)
    sums = {"CRC32": zlib.crc32(body).to_bytes(4, "big"), "SHA1": hashlib.sha1(body).digest(), "SHA256": hashlib.sha256(body).digest()}
    for name, raw in sums.items():
        value = base64.b64encode(raw).decode()
        for given in ({"ChecksumAlgorithm": name}, {f"Checksum{name}": value}):
            client.put_object(Bucket=BUCKET, Key="sum", Body=body, **given)
            found = client.head_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED").get(f"Checksum{name}")
            context.check(found == value, f"{name} with {list(given)} is told as {found}")
            got = client.get_object(Bucket=BUCKET, Key="sum", ChecksumMode="ENABLED")
            context.check(got["Body"].read() == body, "a body with a sum differs")
        wrong = base64.b64encode(bytes(len(raw))).decode()
        fails(context, client, 400, "BadDigest", "put_object", Bucket=BUCKET, Key="wrong", Body=body, **{f"Checksum{name}": wrong})
    wrong = base64.b64encode(bytes(16)).decode()
    fails(context, client, 400, "BadDigest", "put_object", Bucket=BUCKET, Key="wrong", Body=body, ContentMD5=wrong)
    fails(context, client, 404, "404", "head_object", Bucket=BUCKET, Key="wrong")
    upload = client.create_multipart_upload(Bucket=BUCKET, Key="sums", ChecksumAlgorithm="SHA256")["UploadId"]
    pieces = [body[:1] * PART, body]
    parts = []
    for number, piece in enumerate(pieces, 1):
        part = client.upload_part(Bucket=BUCKET, Key="sums", UploadId=upload, PartNumber=number, Body=piece, ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    client.complete_multipart_upload(Bucket=BUCKET, Key="sums", UploadId=upload, MultipartUpload={"Parts": parts})
    told = client.get_object_attributes(Bucket=BUCKET, Key="sums", ObjectAttributes=["Checksum", "ObjectParts", "ObjectSize", "ETag"])
    whole = base64.b64encode(hashlib.sha256(b"".join(hashlib.sha256(piece).digest() for piece in pieces)).digest()).decode()
    context.check(told["Checksum"]["ChecksumSHA256"].split("-")[0] == whole, f"the sum of two parts is told as {told['Checksum']}")
    context.check((told["ObjectSize"], told["ObjectParts"]["TotalPartsCount"]) == (PART + len(body), 2), f"attributes: {told}")


def ranges(context, client):
    """Parts of objects of every way of storing."""
    for size in (200, 5000, 70_000, 3 << 20):
        body = context.random.randbytes(size)
        client.put_object(Bucket=BUCKET, Key="ranges", Body=body)
        for asked, begin, end in ((f"bytes=0-0", 0, 1), ("bytes=-5", size - 5, size), ("bytes=100-", 100, size),
                                  (f"bytes=7-{size + 9}", 7, size), (f"bytes=-{size + 9}", 0, size), (f"bytes={size - 1}-{size - 1}", size - 1, size)):
            found = client.get_object(Bucket=BUCKET, Key="ranges", Range=asked)
            context.check(found["Body"].read() == body[begin:end], f"{asked} of {size} bytes differs")
            context.check(found["ContentRange"] == f"bytes {begin}-{end - 1}/{size}", f"{asked} of {size} bytes: {found['ContentRange']}")
        fails(context, client, 416, "InvalidRange", "get_object", Bucket=BUCKET, Key="ranges", Range=f"bytes={size}-")


def conditions(context, client):
    """Requests that depend on what is there."""
    def put(body, **headers):
        def add(params, **_):
            params["headers"].update(headers)
            # After an answer in place of `100 Continue` botocore 1.29 misreads the next one on that connection that comes late.
            params["headers"].pop("Expect", None)
        client.meta.events.register_last("before-call.s3.PutObject", add)
        try:
            return client.put_object(Bucket=BUCKET, Key="condition", Body=body)
        finally:
            client.meta.events.unregister("before-call.s3.PutObject", add)

    tag = put(b"one", **{"If-None-Match": "*"})["ETag"]
    where = {"Bucket": BUCKET, "Key": "condition"}
    hour = datetime.timedelta(hours=1)
    now = client.head_object(**where)["LastModified"]
    context.check(get(client, "condition", IfMatch=tag, IfModifiedSince=now - hour) == b"one", "a GET whose conditions hold differs")
    for given, code in (({"IfMatch": '"0"'}, 412), ({"IfNoneMatch": tag}, 304), ({"IfModifiedSince": now}, 304),
                        ({"IfUnmodifiedSince": now - hour}, 412), ({"IfNoneMatch": tag, "IfModifiedSince": now - hour}, 304)):
        fails(context, client, code, None, "get_object", **where, **given)
        fails(context, client, code, None, "head_object", **where, **given)
    refused(context, client, 412, "PreconditionFailed", lambda: put(b"two", **{"If-None-Match": "*"}))
    refused(context, client, 412, "PreconditionFailed", lambda: put(b"two", **{"If-Match": '"0"'}))
    context.check(get(client, "condition") == b"one", "a refused PUT left something")
    put(b"two", **{"If-Match": tag})
    context.check(get(client, "condition") == b"two", "a PUT whose condition holds left nothing")


def versions(context, client):
    """Every version stays until it is deleted by its id."""
    bucket = BUCKET + "-versions"
    client.create_bucket(Bucket=bucket)
    where = {"Bucket": bucket, "Key": "v"}
    client.put_object(**where, Body=b"before")
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [client.put_object(**where, Body=str(number).encode())["VersionId"] for number in range(3)]
    marker = client.delete_object(**where)
    context.check(marker["DeleteMarker"], "a deletion leaves no marker")
    fails(context, client, 404, "NoSuchKey", "get_object", **where)
    for version, body in (("null", b"before"), *((version, str(number).encode()) for number, version in enumerate(ids))):
        context.check(client.get_object(**where, VersionId=version)["Body"].read() == body, f"version {version} differs")
    listed = client.list_object_versions(Bucket=bucket)
    context.check([v["VersionId"] for v in listed["Versions"]] == [*reversed(ids), "null"], f"versions: {listed['Versions']}")
    context.check([m["IsLatest"] for m in listed["DeleteMarkers"]] == [True], f"markers: {listed['DeleteMarkers']}")
    client.delete_object(**where, VersionId=marker["VersionId"])
    context.check(client.get_object(**where)["Body"].read() == b"2", "without its marker an object is not back")
    client.copy_object(**where, CopySource={**where, "VersionId": ids[0]})
    context.check(client.get_object(**where)["Body"].read() == b"0", "an old version is not copied to the top")
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    client.put_object(**where, Body=b"suspended")
    context.check(client.get_object(**where, VersionId="null")["Body"].read() == b"suspended", "the null version is another one")
    fails(context, client, 409, "BucketNotEmpty", "delete_bucket", Bucket=bucket)
    every = client.list_object_versions(Bucket=bucket)
    objects = [{"Key": v["Key"], "VersionId": v["VersionId"]} for v in every["Versions"] + every.get("DeleteMarkers", [])]
    gone = client.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    context.check(len(gone["Deleted"]) == len(objects) and "Errors" not in gone, f"deleted by id: {gone}")
    client.delete_bucket(Bucket=bucket)


def copies(context, client):
    """Copies keep or replace what belongs to the object."""
    client.put_object(Bucket=BUCKET, Key="from", Body=b"body", Metadata={"a": "1"}, Tagging="k=v", ContentType="text/x-test")
    source = {"Bucket": BUCKET, "Key": "from"}
    client.copy_object(Bucket=BUCKET, Key="to +&ü", CopySource=source)
    head = client.head_object(Bucket=BUCKET, Key="to +&ü")
    tags = client.get_object_tagging(Bucket=BUCKET, Key="to +&ü")["TagSet"]
    context.check((head["Metadata"], head["ContentType"], tags) == ({"a": "1"}, "text/x-test", [{"Key": "k", "Value": "v"}]), f"a copy has {head} {tags}")
    client.copy_object(Bucket=BUCKET, Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"}, TaggingDirective="REPLACE", Tagging="")
    context.check(client.head_object(Bucket=BUCKET, Key="to")["Metadata"] == {"b": "2"}, "a copy's metadata are not replaced")
    context.check(client.get_object_tagging(Bucket=BUCKET, Key="to")["TagSet"] == [], "a copy's tags are not replaced")
    fails(context, client, 412, "PreconditionFailed", "copy_object", Bucket=BUCKET, Key="to", CopySource=source, CopySourceIfMatch='"0"')
    fails(context, client, 400, "InvalidRequest", "copy_object", Bucket=BUCKET, Key="from", CopySource=source)
    fails(context, client, 404, "NoSuchKey", "copy_object", Bucket=BUCKET, Key="to", CopySource={"Bucket": BUCKET, "Key": "absent"})


def lists(context, client):
    """Pages, prefixes, delimiters and odd names; many deletions in one request."""
    keys = sorted([f"lists/{name}" for name in tree.ODD_NAMES] + [f"lists/many/{number:04}" for number in range(250)], key=str.encode)
    for key in keys:
        client.put_object(Bucket=BUCKET, Key=key, Body=b"")
    for operation in ("list_objects", "list_objects_v2"):
        pages = client.get_paginator(operation).paginate(Bucket=BUCKET, Prefix="lists/", PaginationConfig={"PageSize": 37})
        found = [item["Key"] for page in pages for item in page.get("Contents", [])]
        context.check(found == keys, f"{operation}: {sorted(set(found) ^ set(keys))}, or another order")
    level = client.list_objects_v2(Bucket=BUCKET, Prefix="lists/", Delimiter="/")
    wanted = sorted({"lists/" + key.split("/")[1] + "/" for key in keys if key.count("/") > 1}, key=str.encode)
    context.check([p["Prefix"] for p in level["CommonPrefixes"]] == wanted, f"common prefixes: {level['CommonPrefixes']}")
    context.check(level["KeyCount"] == len(wanted) + len(level["Contents"]), f"a count of {level['KeyCount']}")
    after = client.list_objects_v2(Bucket=BUCKET, Prefix="lists/many/", StartAfter="lists/many/0247")["Contents"]
    context.check([item["Key"][-4:] for item in after] == ["0248", "0249"], f"after 0247: {after}")
    gone = client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True})
    context.check("Errors" not in gone and "Deleted" not in gone, f"deleted quietly: {gone}")
    context.check(client.list_objects_v2(Bucket=BUCKET, Prefix="lists/")["KeyCount"] == 0, "deleted objects are listed")


def settings(context, client):
    """What belongs to a bucket is kept as given."""
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject",
                                                      "Resource": f"arn:aws:s3:::{BUCKET}/denied/*"}]}
    client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))
    context.check(json.loads(client.get_bucket_policy(Bucket=BUCKET)["Policy"]) == policy, "a policy is another one")
    fails(context, client, 403, "AccessDenied", "put_object", Bucket=BUCKET, Key="denied/x", Body=b"")
    client.delete_bucket_policy(Bucket=BUCKET)
    rules = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["http://a.example"], "AllowedHeaders": ["*"], "MaxAgeSeconds": 60}]
    client.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": rules})
    context.check(client.get_bucket_cors(Bucket=BUCKET)["CORSRules"] == rules, "rules for origins are others")
    code, headers, _ = web("OPTIONS", f"{client.meta.endpoint_url}/{BUCKET}/x", headers={"Origin": "http://a.example", "Access-Control-Request-Method": "GET"})
    context.check((code, headers["Access-Control-Allow-Origin"]) == (200, "http://a.example"), f"a preflight answers {code}")
    rules = [{"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Days": 30}}]
    client.put_bucket_lifecycle_configuration(Bucket=BUCKET, LifecycleConfiguration={"Rules": rules})
    context.check(client.get_bucket_lifecycle_configuration(Bucket=BUCKET)["Rules"] == rules, "a lifecycle is another one")
    client.put_object(Bucket=BUCKET, Key="open", Body=b"open", ACL="public-read")
    context.check(web("GET", f"{client.meta.endpoint_url}/{BUCKET}/open")[2] == b"open", "a public object is not served without a signature")


def encryption(context, client):
    """Objects under the client's key and under the server's."""
    body = context.random.randbytes(200_000)
    client.put_object(Bucket=BUCKET, Key="sse", Body=body, ServerSideEncryption="AES256")
    context.check(get(client, "sse") == body, "an object under the server's key differs")
    key = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": os.urandom(32)}
    client.put_object(Bucket=BUCKET, Key="ssec", Body=body, **key)
    context.check(get(client, "ssec", **key, Range="bytes=65530-65545") == body[65530:65546], "a range under a client's key differs")
    fails(context, client, 400, None, "get_object", Bucket=BUCKET, Key="ssec")
    fails(context, client, 400, None, "get_object", Bucket=BUCKET, Key="ssec", SSECustomerAlgorithm="AES256", SSECustomerKey=os.urandom(32))


def lock(context, client):
    """A version under a legal hold cannot be deleted."""
    bucket = BUCKET + "-lock"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    version = client.put_object(Bucket=bucket, Key="held", Body=b"", ObjectLockLegalHoldStatus="ON", ChecksumAlgorithm="CRC32")["VersionId"]
    fails(context, client, 403, "AccessDenied", "delete_object", Bucket=bucket, Key="held", VersionId=version)
    client.put_object_legal_hold(Bucket=bucket, Key="held", VersionId=version, LegalHold={"Status": "OFF"})
    client.delete_object(Bucket=bucket, Key="held", VersionId=version)
    client.delete_bucket(Bucket=bucket)


def get(client, key, **parameters):
    """An object's bytes."""
    return client.get_object(Bucket=BUCKET, Key=key, **parameters)["Body"].read()


def fails(context, client, code, name, operation, **parameters):
    """Checks that an operation is refused so."""
    refused(context, client, code, name, lambda: getattr(client, operation)(**parameters), f"{operation} {parameters.get('Key', '')}")


def refused(context, client, code, name, call, what="put_object"):
    """Checks that a call is refused with the code of HTTP and of S3 (None: any)."""
    try:
        call()
    except client.exceptions.ClientError as error:
        found = error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"]
        context.check(found[0] == code and name in (None, found[1]), f"{what} fails with {found}, not {code} {name}")
    else:
        context.check(False, f"{what} succeeds, and should fail with {code} {name}")


def web(method, url, body=None, headers=None):
    """A plain request; returns status, headers and body."""
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()
