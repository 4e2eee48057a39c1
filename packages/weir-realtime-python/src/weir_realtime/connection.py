"""One WebSocket connection: its messages, pings and close codes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from .errors import ConnectionRejected
from .events import decoded
from .version import __version__

PROTOCOL = 7
DEFAULT_ACTIVITY_SECONDS = 120.0

LOST = (OSError, WebSocketException)
"""What the functions of this module raise when a connection is lost or can't be opened. TimeoutError is an OSError."""

Message: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class ConnectionOptions:
    """Limits of a connection."""

    open_timeout: float
    pong_timeout: float
    message_bytes_max: int


def app_url(server: str, key: str) -> str:
    """The address of an app, from `ws://HOST:PORT` or `wss://HOST`."""
    if not server.startswith(("ws://", "wss://")):
        raise ValueError(f"{server!r} must begin with ws:// or wss://")
    query = urlencode({"protocol": PROTOCOL, "client": "weir-realtime-python", "version": __version__})
    return f"{server.rstrip('/')}/app/{quote(key, safe='')}?{query}"


class Connection:
    """An established connection."""

    def __init__(self, socket: ClientConnection, established: Message, pong_timeout: float) -> None:
        self.socket_id = str(established["socket_id"])
        self._socket = socket
        self._activity_seconds = float(established.get("activity_timeout") or DEFAULT_ACTIVITY_SECONDS)
        self._pong_timeout = pong_timeout

    async def receive(self) -> Message:
        """The next message, other than pings and pongs. Raises one of LOST, or ConnectionRejected."""
        while True:
            message = await self._receive_or_ping()
            if message["event"] == "pusher:ping":
                await self.send({"event": "pusher:pong", "data": {}})
            elif message["event"] != "pusher:pong":
                return message

    async def send(self, message: Message) -> None:
        """Raises one of LOST."""
        await self._socket.send(json.dumps(message))

    async def _receive_or_ping(self) -> Message:
        try:
            async with asyncio.timeout(self._activity_seconds):
                return await _read(self._socket)
        except TimeoutError:
            await self.send({"event": "pusher:ping", "data": {}})
        async with asyncio.timeout(self._pong_timeout):
            return await _read(self._socket)


@asynccontextmanager
async def open_connection(url: str, options: ConnectionOptions) -> AsyncIterator[Connection]:
    """Connects. Raises one of LOST, or ConnectionRejected."""
    # The protocol has pings of its own.
    async with connect(
        url, open_timeout=options.open_timeout, ping_interval=None, max_size=options.message_bytes_max, close_timeout=1
    ) as socket:
        async with asyncio.timeout(options.open_timeout):
            message = await _read(socket)
            while message["event"] != "pusher:connection_established":
                message = await _read(socket)
        yield Connection(socket, decoded(message["data"]), options.pong_timeout)


async def _read(socket: ClientConnection) -> Message:
    try:
        text = await socket.recv()
    except ConnectionClosed as closed:
        if closed.rcvd is not None and 4000 <= closed.rcvd.code < 4100:
            raise ConnectionRejected(closed.rcvd.code, closed.rcvd.reason) from closed
        raise
    message = decoded(text if isinstance(text, str) else text.decode())
    if not isinstance(message, dict) or not isinstance(message.get("event"), str):
        raise ConnectionError(f"not a server of the Pusher protocol: it sent {text[:100]!r}")
    return message


def may_reconnect_immediately(error: BaseException) -> bool:
    """Whether the server said so, with a close code from 4200 to 4299."""
    return isinstance(error, ConnectionClosed) and error.rcvd is not None and 4200 <= error.rcvd.code < 4300
