"""A proxy between an NBD client and the server that notes what the client uses.

It decodes the client's half only: handshake flags, options, then requests. Bytes pass
unchanged. One client after another; several connections at a time.
"""

import os
import socket
import struct
import threading

OPTIONS = {1: "EXPORT_NAME", 2: "ABORT", 3: "LIST", 5: "STARTTLS", 6: "INFO", 7: "GO", 8: "STRUCTURED_REPLY",
           9: "LIST_META_CONTEXT", 10: "SET_META_CONTEXT", 11: "EXTENDED_HEADERS"}
COMMANDS = {0: "READ", 1: "WRITE", 2: "DISC", 3: "FLUSH", 4: "TRIM", 5: "CACHE", 6: "WRITE_ZEROES", 7: "BLOCK_STATUS"}
FLAGS = {1: "FUA", 2: "NO_HOLE", 4: "DF", 8: "REQ_ONE", 16: "FAST_ZERO"}
PAYLOAD_LEN = 32
EXTENDED_REQUEST = b"\x21\xe4\x1c\x71"
NO_ZEROES = 2


class Spy:
    """Listens on `path` and forwards to `server_path` while it is open."""

    def __init__(self, server_path, path):
        self.server_path = server_path
        self.path = path
        self._options = {}
        self._commands = {}
        self._threads = []
        self._connections = 0

    def __enter__(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def options(self):
        """Options that the client sent, in order of first use."""
        several = [f"{self._connections} connections"] if self._connections > 1 else []
        return list(self._options) + several

    def commands(self):
        """Commands that the client sent, with their flags."""
        return list(self._commands)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connections += 1
            server = socket.socket(socket.AF_UNIX)
            server.connect(self.server_path)
            for target, arguments in ((self._forward, (server, client)), (self._watch, (client, server))):
                thread = threading.Thread(target=target, args=arguments, daemon=True)
                self._threads.append(thread)
                thread.start()

    @staticmethod
    def _forward(source, sink):
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            _end(sink, socket.SHUT_WR)

    def _watch(self, client, server):
        take = _Tee(client, server).take
        try:
            take(4)  # handshake flags
            while True:
                magic, option, length = struct.unpack(">8sII", take(16))
                assert magic == b"IHAVEOPT", magic
                self._options.setdefault(OPTIONS.get(option, str(option)))
                take(length)
                if option in (1, 7):  # a refused GO is followed by options again
                    break
            while True:
                (magic,) = struct.unpack(">4s", take(4))
                if magic == b"IHAV":
                    option, length = struct.unpack(">4xII", take(12))
                    self._options.setdefault(OPTIONS.get(option, str(option)))
                    take(length)
                    continue
                is_extended = magic == EXTENDED_REQUEST
                form, size = (">HHQQQ", 28) if is_extended else (">HHQQI", 24)
                flags, command, _cookie, _offset, length = struct.unpack(form, take(size))
                names = "+".join(name for bit, name in FLAGS.items() if flags & bit)
                self._commands.setdefault(COMMANDS.get(command, str(command)) + (f"({names})" if names else ""))
                has_payload = flags & PAYLOAD_LEN if is_extended else command == 1
                if has_payload:
                    take(length)
        except (OSError, EOFError):
            pass
        finally:
            _end(server, socket.SHUT_WR)


class _Tee:
    """Takes exact counts of bytes from one socket and passes them on to the other."""

    def __init__(self, source, sink):
        self._source = source
        self._sink = sink

    def take(self, count):
        """Exactly `count` bytes, already forwarded."""
        held = bytearray()
        while len(held) < count:
            data = self._source.recv(min(count - len(held), 1 << 16))
            if not data:
                raise EOFError
            self._sink.sendall(data)
            held += data
        return bytes(held)


def _end(connection, how):
    try:
        connection.shutdown(how)
    except OSError:
        pass
