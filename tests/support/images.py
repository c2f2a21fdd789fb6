"""Images of real files, and what they hold."""

import hashlib
import os

BLOCK = 4096
PIECE = 4 << 20


def make(context, source):
    """An ext4 image of the files below `source`, and its size."""
    used_mib = int(context.run("du", "-smx", source).split()[0])
    image = context.path("image.ext4")
    context.run("mke2fs", "-q", "-F", "-t", "ext4", "-b", str(BLOCK), "-d", source, image, f"{used_mib * 11 // 10 + 64}M", timeout=3600)
    return image, os.path.getsize(image)


def count_blocks(image):
    """Blocks of the image that are not zeros, and how many of them differ."""
    zeros, seen, blocks = bytes(BLOCK), set(), 0
    with open(image, "rb") as file:
        while block := file.read(BLOCK):
            if block != zeros:
                blocks += 1
                seen.add(hashlib.blake2b(block, digest_size=16).digest())
    return blocks, len(seen)


def compare(context, uri, expected, what):
    """Fails unless an export holds `expected`."""
    import nbd
    handle = nbd.NBD()
    handle.connect_uri(uri)
    for at in range(0, len(expected), PIECE):
        wanted = expected[at:at + PIECE]
        found = handle.pread(len(wanted), at)
        context.check(found == wanted, f"{what}: wrong bytes within {PIECE} bytes at {at}")
    handle.shutdown()


def compare_blocks(context, uri, blocks, what):
    """Fails unless blocks of an export hold what they are to."""
    import nbd
    handle = nbd.NBD()
    handle.connect_uri(uri)
    for block, wanted in blocks.items():
        context.check(handle.pread(BLOCK, block * BLOCK) == wanted, f"{what}: block {block} is wrong")
    handle.shutdown()
