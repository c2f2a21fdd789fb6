"""Items as files of a mounted file system."""

import errno
import os

from .ledger import Missing, Unreadable
from .system import System, bounded


class FileSystem(System):
    """A system that is mounted at `mount`: an item is acknowledged when its file and its name are synced."""

    def __init__(self, context, directory):
        super().__init__(context, directory)
        self.mount = os.path.join(directory, "mnt")
        os.makedirs(self.mount)

    def put(self, key, body):
        self._do(lambda: self._write(key, body))

    def get(self, key, size):
        return self._do(lambda: self._read(key))

    def delete(self, key):
        self._do(lambda: os.unlink(self._path(key)))

    def _path(self, key):
        return os.path.join(self.mount, key)

    def _write(self, key, body):
        part = self._path(f".{key}.part")
        with open(part, "wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.rename(part, self._path(key))
        directory = os.open(self.mount, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _read(self, key):
        with open(self._path(key), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # From the drives, not from memory.
            return file.read()

    def _do(self, action):
        if not os.path.ismount(self.mount):
            raise Unreadable("it is not mounted")
        try:
            return bounded(action)
        except OSError as error:
            raise (Missing if error.errno == errno.ENOENT else Unreadable)(str(error).replace(self.directory, "")) from None
