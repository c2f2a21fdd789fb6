"""S3 clients that put, overwrite and delete objects until their server goes, and know what was acknowledged."""

import hashlib
import random
import threading
import time

ABSENT = "absent"
SIZES = (0, 200, 4096, 65_537, 300_000, 1 << 20)


class Load:
    """Clients with keys of their own in one bucket; each key may hold what was acknowledged last, or what was in flight behind that."""

    def __init__(self, context, bucket, clients=2, keys=8, sizes=SIZES):
        self.context = context
        self.bucket = bucket
        self.sizes = sizes
        self.done = 0
        # ETags; the acknowledged one first.
        self.known = [{f"client{index}/{number}": [ABSENT] for number in range(keys)} for index in range(clients)]
        self._seed = context.random.random()
        self._threads = []
        self._stop = threading.Event()

    def begin(self, make_client):
        """Starts the clients; each goes on until a request fails or it is told to end."""
        self._stop.clear()
        self._threads = [threading.Thread(target=self._run, args=(index, make_client()), daemon=True) for index in range(len(self.known))]
        for thread in self._threads:
            thread.start()

    def end(self):
        """Tells the clients to end; says whether none of them was failed."""
        before = [thread.is_alive() for thread in self._threads]
        self._stop.set()
        self.join()
        return all(before)

    def join(self):
        """Waits for the end of the clients."""
        for thread in self._threads:
            thread.join(timeout=600)
            self.context.check(not thread.is_alive(), "an S3 client waits for ever")

    def _run(self, index, client):
        known, dice = self.known[index], random.Random(f"{self._seed} {index} {self.done}")
        while not self._stop.is_set():
            try:
                self._change(client, known, dice)
            except AssertionError:
                raise
            except Exception:
                return  # It may have happened, or not.

    def _change(self, client, known, dice):
        """One change of a key, which is known once it is acknowledged; until then it may have happened, or not."""
        key, kind = dice.choice(list(known)), dice.random()
        body = dice.randbytes(dice.choice(self.sizes))
        wanted = ABSENT if kind < 0.2 else hashlib.md5(body).hexdigest()
        known[key].append(wanted)
        try:
            if wanted == ABSENT:
                client.delete_object(Bucket=self.bucket, Key=key)
            else:
                # An answer without an ETag is a connection that ended, whatever botocore makes of it.
                found = client.put_object(Bucket=self.bucket, Key=key, Body=body)["ETag"].strip('"')
                assert found == wanted, f"{key} was acknowledged as {found}, not {wanted}"
        except Exception as error:
            if was_refused(error):
                known[key].pop()
            raise
        known[key] = [wanted]
        self.done += 1

    def judge(self, client):
        """Every key holds what it may, byte for byte; that counts from now on. Returns how many objects there are."""
        here = 0
        for known in self.known:
            for key, values in known.items():
                try:
                    answer = client.get_object(Bucket=self.bucket, Key=key)
                    found, body = answer["ETag"].strip('"'), answer["Body"].read()
                    self.context.check(hashlib.md5(body).hexdigest() == found, f"{key} says that it is {found}, and holds something else")
                    here += 1
                except client.exceptions.NoSuchKey:
                    found = ABSENT
                self.context.check(found in values, f"{key} holds {found}, none of {values}")
                known[key] = [found]
        return here


class Following(Load):
    """Clients that go on at whichever of two servers takes changes of the bucket."""

    def begin_at(self, sides, keys):
        """Starts the clients with the keys of both sides."""
        self.begin(lambda: (list(sides), keys))

    def end(self):
        """Tells the clients to end, of which none has by itself."""
        self.context.check(super().end(), "a client met what must not be")

    def _run(self, index, where):
        sides, keys = where
        known, dice, clients = self.known[index], random.Random(f"{self._seed} {index} {self.done}"), {}
        while not self._stop.is_set():
            endpoint = sides[0].endpoint
            try:
                if endpoint not in clients:
                    clients[endpoint] = sides[0].client(keys)
                self._change(clients[endpoint], known, dice)
            except AssertionError:
                raise
            except Exception:
                sides.reverse()
                time.sleep(0.02)


def was_refused(error):
    """Whether a change surely did not happen: the server was not there, or had no such bucket, or one that moves."""
    from botocore.exceptions import ClientError, EndpointConnectionError

    if isinstance(error, ClientError):
        what = error.response["Error"]
        moves = what["Code"] == "ServiceUnavailable" and what.get("Message", "").startswith("bucket ")
        return moves or what["Code"] == "NoSuchBucket"
    return isinstance(error, EndpointConnectionError)


def client_of(node, keys, seconds=60):
    """A boto3 client of a node that serves, or begins to; it tries nothing twice."""
    import boto3
    from botocore.config import Config

    node.context.wait_for(lambda: node.endpoint, "S3 is served")
    config = Config(signature_version="s3v4", retries={"max_attempts": 0}, s3={"addressing_style": "path"}, connect_timeout=5, read_timeout=seconds)
    return boto3.client("s3", endpoint_url=node.endpoint, aws_access_key_id=keys[0], aws_secret_access_key=keys[1],
                        region_name="us-east-1", config=config)
