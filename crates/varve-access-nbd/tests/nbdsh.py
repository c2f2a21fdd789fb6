# Every command and flag, through libnbd. Run by real_clients.rs; `h` and `uri` are set.
import errno

h = nbd.NBD()
h.set_handshake_flags(h.get_handshake_flags())
h.add_meta_context("base:allocation")
h.add_meta_context("x-unknown:thing")
h.set_full_info(True)
h.connect_uri(uri)

MIB = 1 << 20
assert h.get_size() == 64 * MIB
assert h.get_structured_replies_negotiated()
assert h.can_meta_context("base:allocation") and not h.can_meta_context("x-unknown:thing")
assert not h.is_read_only() and not h.is_rotational()
for can in (h.can_cache, h.can_df, h.can_fast_zero, h.can_flush, h.can_fua, h.can_multi_conn, h.can_trim, h.can_zero):
    assert can(), can
assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
assert h.get_block_size(nbd.SIZE_PREFERRED) == 4096
assert h.get_block_size(nbd.SIZE_MAXIMUM) == 32 * MIB
assert h.get_canonical_export_name() == "disk"

def status(offset, count, flags=0):
    found = []
    def extent(metacontext, at, entries, error):
        assert metacontext == "base:allocation" and at == offset
        found.extend(zip(entries[0::2], entries[1::2]))
    h.block_status(count, offset, extent, flags)
    return found

# An empty volume is one hole and reads as zeros, in a hole chunk.
assert status(0, 64 * MIB) == [(64 * MIB, 3)]
kinds = []
def chunk(buf, offset, kind, error):
    kinds.append((len(buf), offset, kind))
assert h.pread_structured(MIB, 0, chunk) == bytes(MIB)
assert kinds == [(MIB, 0, nbd.READ_HOLE)], kinds

# Any alignment.
h.pwrite(b"unaligned", 4093)
assert h.pread(11, 4092) == b"\0unaligned\0"
h.pwrite(b"x" * 70001, 12345, nbd.CMD_FLAG_FUA)
assert h.pread(70003, 12344) == b"\0" + b"x" * 70001 + b"\0"
h.flush()

# Data, then a hole, then data: three chunks, or one with DF.
h.pwrite(b"a" * 4096, 2 * MIB)
h.pwrite(b"b" * 4096, 2 * MIB + 8192)
kinds.clear()
expected = b"a" * 4096 + bytes(4096) + b"b" * 4096
assert h.pread_structured(12288, 2 * MIB, chunk) == expected
assert sorted(kinds) == [(4096, 2 * MIB, nbd.READ_DATA), (4096, 2 * MIB + 4096, nbd.READ_HOLE), (4096, 2 * MIB + 8192, nbd.READ_DATA)]
kinds.clear()
assert h.pread_structured(12288, 2 * MIB, chunk, nbd.CMD_FLAG_DF) == expected
assert kinds == [(12288, 2 * MIB, nbd.READ_DATA)]

# Block status follows trims and zeroing; NO_HOLE keeps the space.
assert status(2 * MIB, 16384) == [(4096, 0), (4096, 3), (4096, 0), (4096, 3)]
assert status(2 * MIB, 16384, nbd.CMD_FLAG_REQ_ONE) == [(4096, 0)]
h.trim(4096, 2 * MIB, nbd.CMD_FLAG_FUA)
assert status(2 * MIB, 8192) == [(8192, 3)]
h.zero(8192, 2 * MIB, nbd.CMD_FLAG_NO_HOLE)
assert status(2 * MIB, 16384) == [(8192, 2), (4096, 0), (4096, 3)]
h.zero(16384, 2 * MIB, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_FUA)
assert status(2 * MIB, 16384) == [(16384, 3)]
assert h.pread(16384, 2 * MIB) == bytes(16384)
h.cache(3 * MIB, 0)

# The largest request, both ways.
big = bytes(range(256)) * (32 * MIB // 256)
h.pwrite(big, 32 * MIB)
assert h.pread(32 * MIB, 32 * MIB) == big

# Errors: the right number, and the connection goes on. The client's own checks are off.
h.set_strict_mode(0)
def fails(number, call, *args):
    try:
        call(*args)
    except nbd.Error as error:
        assert error.errnum == number, (error.errnum, number)
    else:
        raise AssertionError("should fail")
end = 64 * MIB
fails(errno.EINVAL, h.pread, 512, end)
fails(errno.EINVAL, h.pread, 512, end - 511)
fails(errno.ENOSPC, h.pwrite, b"x" * 512, end - 511)
fails(errno.ENOSPC, h.pwrite, b"x" * 4 * MIB, end - 511)
fails(errno.ENOSPC, h.zero, 512, end)
fails(errno.EINVAL, h.trim, 512, end)
fails(errno.EINVAL, h.cache, 512, end)
fails(errno.EINVAL, h.trim, 512, 0, nbd.CMD_FLAG_DF)
fails(errno.EINVAL, h.flush, nbd.CMD_FLAG_REQ_ONE)
assert h.pread(4, end - 4) == big[-4:]

# Many at a time, finishing in any order.
bufs = [nbd.Buffer.from_bytearray(bytearray([i] * 4096)) for i in range(128)]
cookies = [h.aio_pwrite(bufs[i], i * 4096) for i in range(128)]
while h.aio_in_flight() > 0:
    h.poll(-1)
assert all(h.aio_command_completed(cookie) for cookie in cookies)
assert h.pread(128 * 4096, 0) == b"".join(bytes([i] * 4096) for i in range(128))

h.shutdown()
print("all good")
