"""A few libnbd connections to one volume, driven by one poll loop.

Commands are issued without waiting; each calls back with an errno (0: done). When
the server dies, every command in flight calls back with an error and `lost` is set.
"""

import errno
import select

import nbd

# What libnbd gives to commands in flight when their connection goes, and NBD's own word for it.
GONE = (errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNRESET, errno.EPIPE)

# libnbd 1.14 never lets go of the memory of a read or write: the same is used again and again.
STORAGE_BYTES = 1 << 20


class ConnectionLost(Exception):
    """The server went away."""


class Pool:
    """Connections to `uri`; `in_flight` commands are spread over them."""

    def __init__(self, uri, connections=2):
        self.handles = []
        self.in_flight = 0
        self.lost = False
        for _ in range(connections):
            handle = nbd.NBD()
            try:
                handle.connect_uri(uri)
            except nbd.Error as error:
                raise ConnectionLost(str(error)) from error
            self.handles.append(handle)
            if not handle.can_multi_conn():
                break
        self.size_bytes = self.handles[0].get_size()
        self._next = 0
        self._spare = []

    def write(self, offset, data, done, fua=False):
        """Writes `data`; `done(errno)` follows."""
        storage = self._storage(len(data))
        storage[:len(data)] = data
        buffer = nbd.Buffer.from_buffer(storage[:len(data)])
        flags = nbd.CMD_FLAG_FUA if fua else 0
        self._issue(lambda h, c: h.aio_pwrite(buffer, offset, completion=c, flags=flags), done, storage)

    def read(self, offset, count, done):
        """Reads `count` bytes; `done(errno, data)` follows."""
        storage = self._storage(count)
        buffer = nbd.Buffer.from_buffer(storage[:count])
        self._issue(lambda h, c: h.aio_pread(buffer, offset, completion=c),
                    lambda error: done(error, b"" if error else bytearray(storage[:count])), storage)

    def _storage(self, count):
        """Memory for `count` bytes of one command."""
        if count > STORAGE_BYTES:
            return memoryview(bytearray(count))
        return self._spare.pop() if self._spare else memoryview(bytearray(STORAGE_BYTES))

    def trim(self, offset, count, done):
        """Trims; `done(errno)` follows."""
        self._issue(lambda h, c: h.aio_trim(count, offset, completion=c), done)

    def zero(self, offset, count, done, no_hole=False):
        """Writes zeroes; `done(errno)` follows."""
        flags = nbd.CMD_FLAG_NO_HOLE if no_hole else 0
        self._issue(lambda h, c: h.aio_zero(count, offset, completion=c, flags=flags), done)

    def flush(self, done):
        """Flushes; `done(errno)` follows."""
        self._issue(lambda h, c: h.aio_flush(completion=c), done)

    def _issue(self, command, done, storage=None):
        handle = self.handles[self._next % len(self.handles)]
        self._next += 1

        def completed(error):
            self.in_flight -= 1
            number = error if isinstance(error, int) else error.value
            self.lost |= number in GONE
            done(number)
            if storage is not None and len(storage) == STORAGE_BYTES:
                self._spare.append(storage)
            return 1

        self.in_flight += 1
        try:
            command(handle, completed)
        except nbd.Error as error:
            self.in_flight -= 1
            self.lost = True
            raise ConnectionLost(str(error)) from error

    def turn(self, timeout_ms=100):
        """Waits for the sockets once and lets commands complete."""
        if self.lost:
            raise ConnectionLost("the server ended what it serves")
        poll = select.poll()
        by_fd = {}
        for handle in self.handles:
            if handle.aio_is_dead() or handle.aio_is_closed():
                self.lost = True
                raise ConnectionLost("connection closed")
            direction = handle.aio_get_direction()
            events = (select.POLLIN if direction & nbd.AIO_DIRECTION_READ else 0) | (
                select.POLLOUT if direction & nbd.AIO_DIRECTION_WRITE else 0)
            fd = handle.aio_get_fd()
            by_fd[fd] = handle
            poll.register(fd, events)
        for fd, events in poll.poll(timeout_ms):
            handle = by_fd[fd]
            try:
                direction = handle.aio_get_direction()
                if events & (select.POLLIN | select.POLLHUP) and direction & nbd.AIO_DIRECTION_READ:
                    handle.aio_notify_read()
                elif events & select.POLLOUT and direction & nbd.AIO_DIRECTION_WRITE:
                    handle.aio_notify_write()
                elif events & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    self.lost = True
                    raise ConnectionLost("connection reset")
            except nbd.Error as error:
                self.lost = True
                raise ConnectionLost(str(error)) from error

    def drain(self):
        """Lets everything in flight complete."""
        while self.in_flight:
            self.turn()

    def close(self):
        """Disconnects; what is in flight on a dead connection is given up."""
        for handle in self.handles:
            try:
                if not self.lost:
                    handle.shutdown()
            except nbd.Error:
                self.lost = True
        self.handles = []
