"""A volume and a bucket whose acknowledged contents are kept in memory, and compared as a whole."""

import nbd

from .nbd_pool import Pool

BLOCK = 4096
PIECE_BYTES = 1 << 20
DEPTH = 8
SINGLE_READS = 200
LOOK_BYTES = 64 << 10


class Contents:
    """What was acknowledged in volume `v` and in bucket `bucket` of a gateway."""

    def __init__(self, context, gateway, volume_bytes):
        self.context, self.gateway, self.volume_bytes = context, gateway, volume_bytes
        self.image = bytearray(volume_bytes)
        self.objects = {}

    def create(self):
        """Creates volume and bucket."""
        self.gateway.server.create_volume("v", self.volume_bytes)
        self.gateway.client().create_bucket(Bucket="bucket")

    def write(self, blocks, objects, sizes=(0, 100, 5000, 300_000, 3 << 20)):
        """Writes at random places, small and large, and puts objects, new ones and over others."""
        random = self.context.random
        client = self.connect()
        for _ in range(blocks):
            data = random.randbytes(random.choice((1, 1, 1, 4, 64, 512)) * BLOCK)
            offset = random.randrange((self.volume_bytes - len(data)) // BLOCK) * BLOCK
            client.pwrite(data, offset)
            self.image[offset:offset + len(data)] = data
        client.shutdown()
        s3 = self.gateway.client()
        for _ in range(objects):
            self.put(s3, f"key-{random.randrange(12)}", random.choice(sizes))

    def write_at(self, offset, length):
        """Writes random bytes at a place."""
        client = self.connect()
        data = self.context.random.randbytes(length)
        client.pwrite(data, offset)
        self.image[offset:offset + length] = data
        client.shutdown()

    def put(self, s3, key, size):
        """Puts one object of random bytes."""
        body = self.context.random.randbytes(size)
        s3.put_object(Bucket="bucket", Key=key, Body=body)
        self.objects[key] = body

    def judge(self, when, single_reads=SINGLE_READS):
        """Everything reads back: the volume in large pieces, some single blocks, and all objects."""
        self._judge_volume(when)
        client = self.connect()
        for number in self.context.random.sample(range(self.volume_bytes // BLOCK), single_reads):
            offset = number * BLOCK
            self.context.check(client.pread(BLOCK, offset) == self.image[offset:offset + BLOCK], f"{when}: block {number} is not what was acknowledged")
        client.shutdown()
        s3 = self.gateway.client()
        for key, body in self.objects.items():
            read = s3.get_object(Bucket="bucket", Key=key)["Body"].read()
            self.context.check(read == body, f"{when}: object {key} is not what was acknowledged")

    def _judge_volume(self, when):
        wrong = []

        def compare(offset):
            def done(error, data):
                if error or data != self.image[offset:offset + PIECE_BYTES]:
                    wrong.append((offset, error))
            return done

        pool = Pool(self.gateway.server.uri("v"))
        for offset in range(0, self.volume_bytes, PIECE_BYTES):
            while pool.in_flight >= DEPTH:
                pool.turn()
            pool.read(offset, PIECE_BYTES, compare(offset))
        pool.drain()
        pool.close()
        self.context.check(not wrong, f"{when}: MiB that are not what was acknowledged, as offset and errno: {wrong[:5]}")

    def look(self, when):
        """Reads everything, and tries to write: how many pieces and objects are right, and how many answer with an error. Others fail the test."""
        right = failed = 0
        try:
            client = self.connect()
        except nbd.Error:
            return 0, self.volume_bytes // LOOK_BYTES
        self.context.check(client.is_read_only(), f"{when}: the volume is offered for writing")
        client.set_strict_mode(0)
        for offset in range(0, self.volume_bytes, LOOK_BYTES):
            try:
                data = client.pread(LOOK_BYTES, offset)
            except nbd.Error as error:
                self.context.check(error.errno == "EIO", f"{when}: a read at {offset} fails with {error}")
                failed += 1
                continue
            self.context.check(data == self.image[offset:offset + LOOK_BYTES], f"{when}: what lies at {offset} is not what was acknowledged")
            right += 1
        try:
            client.pwrite(bytes(BLOCK), 0)
            self.context.check(False, f"{when}: a write is acknowledged")
        except nbd.Error as error:
            self.context.check(error.errno == "EPERM", f"{when}: a write fails with {error}")
        client.shutdown()
        objects = self._look_at_objects(when)
        return right + objects[0], failed + objects[1]

    def _look_at_objects(self, when):
        from botocore.exceptions import BotoCoreError, ClientError  # Its package may just have been installed.
        right = failed = 0
        s3 = self.gateway.client()
        for key, body in self.objects.items():
            try:
                read = s3.get_object(Bucket="bucket", Key=key)["Body"].read()
            except BotoCoreError:  # The answer had begun, and breaks off.
                failed += 1
                continue
            except ClientError as error:
                status = error.response["ResponseMetadata"]["HTTPStatusCode"]
                self.context.check(status >= 500, f"{when}: object {key}: {error}")
                failed += 1
                continue
            self.context.check(read == body, f"{when}: object {key} is not what was acknowledged")
            right += 1
        try:
            s3.put_object(Bucket="bucket", Key="other", Body=b"x")
            self.context.check(False, f"{when}: an object is acknowledged")
        except ClientError as error:
            self.context.check("reading only" in str(error), f"{when}: an object is refused with {error}")
        return right, failed

    def connect(self):
        """A client of the volume."""
        client = nbd.NBD()
        client.connect_uri(self.gateway.server.uri("v"))
        return client
