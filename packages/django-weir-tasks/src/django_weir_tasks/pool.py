"""Connections that are kept between commands, for all threads of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .connection import Address, Connection
from .errors import ServerError

IDLE_MAX = 8
"""Idle connections to one server; more are closed after their command."""


class ConnectionPool:
    """Gives each caller a connection of its own."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[Connection]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def connection(self, address: Address, timeout: float) -> Iterator[Connection]:
        """An idle connection, or a new one. It is closed after an error other than ServerError."""
        connection = self._take(address) or Connection(address, timeout)
        try:
            yield connection
        except ServerError:
            self._put(address, connection)
            raise
        except BaseException:
            connection.close()
            raise
        self._put(address, connection)

    def _take(self, address: Address) -> Connection | None:
        while True:
            with self._lock:
                idle = self._idle.get(address)
                connection = idle.pop() if idle else None
            if connection is None or connection.is_usable:
                return connection
            connection.close()

    def _put(self, address: Address, connection: Connection) -> None:
        with self._lock:
            idle = self._idle.setdefault(address, [])
            if len(idle) < IDLE_MAX:
                idle.append(connection)
                return
        connection.close()


pool = ConnectionPool()
