"""Faktory's protocol by hand, for what its client packages do not offer: raw text, batches."""

import json
import socket


class Faktory:
    def __init__(self, address, wid=None, timeout=30):
        self._socket = socket.create_connection(address, timeout=timeout)
        self._lines = self._socket.makefile("rb")
        self._lines.readline()
        hello = {"v": 2, **({"wid": wid, "pid": 1, "hostname": "e2e", "labels": []} if wid else {})}
        self.run("HELLO " + json.dumps(hello))

    def run(self, command):
        """Sends one command and returns its reply as bytes, None for nothing."""
        command = command if isinstance(command, bytes) else command.encode()
        self._socket.sendall(command + b"\r\n")
        return self._reply()

    def _reply(self):
        line = self._lines.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection is closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self._lines.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return rest

    def close(self):
        self._lines.close()
        self._socket.close()
