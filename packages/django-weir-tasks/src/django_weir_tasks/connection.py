"""A connection of the Faktory protocol."""

from __future__ import annotations

import hashlib
import json
import os
import select
import socket
import ssl
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from .errors import ConnectionLost, WeirError, server_error

DEFAULT_URL = "tcp://127.0.0.1:7419"
DEFAULT_PORT = 7419
LINE_BYTES_MAX = 64 * 1024
BULK_BYTES_MAX = 64 * 1024 * 1024
HASH_ITERATIONS_MAX = 1_000_000


@dataclass(frozen=True)
class Address:
    """Where a server is: `tcp://[:PASSWORD@]HOST[:PORT]`, or `tcp+tls://` with a certificate that the system trusts."""

    host: str
    port: int
    password: str | None
    uses_tls: bool

    @classmethod
    def parse(cls, url: str) -> Address:
        """Raises ValueError."""
        parts = urlsplit(url)
        if parts.scheme not in ("tcp", "tcp+tls") or not parts.hostname:
            raise ValueError(f"{parts.scheme}://..: write tcp://[:PASSWORD@]HOST[:PORT], or tcp+tls://")
        password = unquote(parts.password) if parts.password else None
        return cls(parts.hostname, parts.port or DEFAULT_PORT, password, parts.scheme == "tcp+tls")


class Connection:
    """
    A connection, after HELLO. `hello` has the members of a worker, or none. Not for several threads at a time. Every
    method raises ConnectionLost when the connection is lost: it can't be used any more.
    """

    def __init__(self, address: Address, timeout: float, hello: dict[str, Any] | None = None) -> None:
        self._pid = os.getpid()
        try:
            self._socket = self._connect(address, timeout)
        except OSError as error:
            raise ConnectionLost(f"can't connect to {address.host}:{address.port}: {error}") from error
        self._file = self._socket.makefile("rb")
        try:
            self._greet(address, hello or {})
        except BaseException:
            self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether the connection seems open, and is not that of a parent process."""
        if self._pid != os.getpid():
            return False
        # Between commands the server sends nothing: what can be read is its end.
        return not select.select([self._socket], [], [], 0)[0]

    def command(self, verb: str, payload: Any = None) -> Any:
        """Sends a command and returns its reply. Raises ServerError."""
        (reply,) = self.commands([(verb, payload)])
        return reply

    def commands(self, commands: list[tuple[str, Any]]) -> list[Any]:
        """Sends commands together and returns their replies. Raises the first ServerError."""
        lines = [verb if payload is None else f"{verb} {_json(payload)}" for verb, payload in commands]
        self._send("".join(f"{line}\r\n" for line in lines))
        replies = [self._reply() for _ in lines]
        for reply in replies:
            if isinstance(reply, WeirError):
                raise reply
        return replies

    def fetch(self, queues: list[str]) -> dict[str, Any] | None:
        """Waits up to some seconds for a job."""
        reply = self.command(f"FETCH {' '.join(queues)}")
        job: dict[str, Any] | None = None if reply is None else json.loads(reply)
        return job

    def close(self) -> None:
        """Closes the connection without telling the server."""
        self._file.close()
        self._socket.close()

    def end(self) -> None:
        """Closes the connection in an orderly way."""
        try:
            self._send("END\r\n")
        except ConnectionLost:
            pass
        self.close()

    def _connect(self, address: Address, timeout: float) -> socket.socket:
        plain = socket.create_connection((address.host, address.port), timeout)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not address.uses_tls:
            return plain
        return ssl.create_default_context().wrap_socket(plain, server_hostname=address.host)

    def _greet(self, address: Address, hello: dict[str, Any]) -> None:
        greeting = self._reply()
        if not isinstance(greeting, str) or not greeting.startswith("HI "):
            raise WeirError(f"{address.host}:{address.port} is no server of the Faktory protocol: {greeting!r}")
        offer = json.loads(greeting[3:])
        hello = {"v": 2, **hello}
        if "s" in offer:
            if address.password is None:
                raise WeirError(f"{address.host}:{address.port} requires a password: write tcp://:PASSWORD@HOST")
            hello["pwdhash"] = _password_hash(address.password, offer["s"], int(offer.get("i", 1)))
        self.command("HELLO", hello)

    def _send(self, text: str) -> None:
        try:
            self._socket.sendall(text.encode())
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"the connection was lost: {error}") from error

    def _reply(self) -> Any:
        """Text, None, or a ServerError, which is not raised."""
        line = self._read_line()
        kind, rest = line[:1], line[1:]
        if kind == "+":
            return rest
        if kind == "-":
            return server_error(rest)
        if kind == "$":
            return self._read_bulk(int(rest))
        raise ConnectionLost(f"unexpected reply: {line[:100]!r}")

    def _read_line(self) -> str:
        try:
            line = self._file.readline(LINE_BYTES_MAX)
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"the connection was lost: {error}") from error
        if not line.endswith(b"\r\n"):
            raise ConnectionLost("the server closed the connection")
        return line[:-2].decode()

    def _read_bulk(self, size: int) -> str | None:
        if size < 0:
            return None
        if size > BULK_BYTES_MAX:
            raise ConnectionLost(f"a reply of {size} bytes is too long")
        try:
            data = self._file.read(size + 2)
        except (OSError, ValueError) as error:
            raise ConnectionLost(f"the connection was lost: {error}") from error
        if len(data) != size + 2:
            raise ConnectionLost("the server closed the connection")
        return data[:-2].decode()


def _password_hash(password: str, salt: str, iterations: int) -> str:
    if not 1 <= iterations <= HASH_ITERATIONS_MAX:
        raise WeirError(f"the server requests {iterations} iterations of the password's hash")
    data = (password + salt).encode()
    for _ in range(iterations):
        data = hashlib.sha256(data).digest()
    return data.hex()


def _json(payload: Any) -> str:
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
