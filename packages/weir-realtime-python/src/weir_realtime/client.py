"""The client: one connection that is kept, its channels, and the order of handlers."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import logging
from types import TracebackType
from typing import Any, Self

from .authorization import Authorize, needs_authorization
from .backoff import Backoff
from .channel import Call, Channel, rejection
from .connection import (
    LOST,
    Connection,
    ConnectionOptions,
    Message,
    app_url,
    may_reconnect_immediately,
    open_connection,
)
from .errors import ConnectionRejected, NotConnected, RealtimeError
from .position import Position

AUTHORIZATIONS_MAX = 8
"""Calls of `authorize` at the same time, also when many channels are subscribed again."""

logger = logging.getLogger("weir_realtime")


class Client:
    """
    A client of one app: `async with Client("ws://127.0.0.1:8080", "demo-key") as client`.

    It connects, and reconnects until it is closed. `backoff_first` and `backoff_max` are seconds: each wait is a
    random part of a time that doubles. Up to `queue_max` events wait for handlers; then the client reads no more until
    there is room, and a client that stays behind is disconnected by the server and recovers.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        authorize: Authorize | None = None,
        backoff_first: float = 1.0,
        backoff_max: float = 30.0,
        queue_max: int = 1000,
        message_bytes_max: int = 4 * 1024 * 1024,
        open_timeout: float = 10.0,
        pong_timeout: float = 30.0,
    ) -> None:
        self._url = app_url(url, key)
        self._authorize = authorize
        self._backoff_seconds = (backoff_first, backoff_max)
        self._backoff = self._new_backoff()
        self._options = ConnectionOptions(open_timeout, pong_timeout, message_bytes_max)
        self._channels: dict[str, Channel] = {}
        self._users: dict[str, str] = {}
        self._calls: asyncio.Queue[Call] = asyncio.Queue(queue_max)
        self._authorizing = asyncio.Semaphore(AUTHORIZATIONS_MAX)
        self._connection: Connection | None = None
        self._joins: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._connected = asyncio.Event()
        self._closed: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        """Starts, and waits for the first connection. Raises ConnectionRejected."""
        if self._closed is not None:
            raise RuntimeError("a client can be entered once: create another one")
        loop = asyncio.get_running_loop()
        self._closed = loop.create_future()
        self._tasks = [loop.create_task(self._run()), loop.create_task(self._dispatch())]
        first = loop.create_task(self._connected.wait())
        try:
            waits: list[asyncio.Future[Any]] = [first, self._closed]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.done():
                self._closed.result()
        except BaseException:
            await self.close()
            raise
        finally:
            first.cancel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def socket_id(self) -> str | None:
        """The id of the present connection: your server can exclude it when it publishes."""
        return None if self._connection is None else self._connection.socket_id

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._connection is not None

    def channel(self, name: str, *, position: Position | None = None) -> Channel:
        """
        A channel to register handlers at and to subscribe. With a `position`, the first subscription recovers the
        events after it, such as those since the last run of the program.
        """
        if name.startswith("private-encrypted-"):
            raise ValueError(f"{name}: encrypted channels are not supported")
        return Channel(self, name, position)

    async def wait_closed(self) -> None:
        """Waits until the client is closed. Raises ConnectionRejected if the server did that."""
        if self._closed is None:
            raise RuntimeError("the client was not entered: async with client")
        await asyncio.shield(self._closed)

    async def close(self) -> None:
        """Closes the connection. Handlers that have not been called yet are not called any more."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._finish(None)

    # The connection.

    async def _run(self) -> None:
        while True:
            is_immediate = False
            try:
                async with open_connection(self._url, self._options) as connection:
                    self._backoff.reset()
                    await self._serve(connection)
            except ConnectionRejected as error:
                return self._finish(error)
            except LOST as error:
                is_immediate = may_reconnect_immediately(error)
                logger.info("connection lost: %s", error)
            except Exception as error:
                logger.exception("unexpected message")
                self._finish(error)
                return
            seconds = self._backoff.next_seconds()
            await asyncio.sleep(0 if is_immediate else seconds)

    async def _serve(self, connection: Connection) -> None:
        self._connection = connection
        self._connected.set()
        for channel in self._channels.values():
            self._start_join(channel)
        try:
            while True:
                await self._on_message(await connection.receive())
        finally:
            self._connection = None
            for join in self._joins:
                join.cancel()
            for channel in self._channels.values():
                channel._disconnected()

    def _finish(self, error: Exception | None) -> None:
        """Ends the client: with an error, for those who subscribe or wait for its end."""
        if self._closed is None or self._closed.done():
            return
        if error is None:
            self._closed.set_result(None)
        else:
            self._closed.set_exception(error)
            self._closed.exception()  # It is no error if nobody waits for it.
        for channel in self._channels.values():
            channel._fail(error or RealtimeError("the client was closed"))

    async def _on_message(self, message: Message) -> None:
        channel = self._channels.get(message.get("channel", ""))
        if channel is None:
            if message["event"] == "pusher:error":
                logger.warning("error from the server: %s", message.get("data"))
            return
        calls = channel._receive(message)
        if message["event"] == "pusher:subscription_error":
            calls = iter(self._on_rejected(channel, message))
        for call in calls:
            await self._calls.put(call)

    async def _dispatch(self) -> None:
        """Calls the handlers one after the other."""
        assert self._closed is not None
        while not self._closed.done():
            handler, argument = await self._calls.get()
            try:
                awaitable = handler(argument)
                if inspect.isawaitable(awaitable):
                    await awaitable
            except Exception:
                logger.exception("error in a handler")

    # Channels.

    async def _subscribe(self, channel: Channel) -> None:
        if self._closed is None or self._closed.done():
            raise RealtimeError("the client is not open: subscribe within `async with client`")
        if self._channels.get(channel.name) not in (None, channel):
            raise RealtimeError(f"{channel.name} is subscribed by another Channel of this client")
        if channel._joined is None or channel.name not in self._channels:
            self._channels[channel.name] = channel
            channel._begin(asyncio.get_running_loop().create_future())
            self._start_join(channel)
        assert channel._joined is not None
        try:
            await asyncio.shield(channel._joined)
        except BaseException:
            # Rejected, or the caller does not wait any longer.
            await self._unsubscribe(channel)
            raise

    async def _unsubscribe(self, channel: Channel) -> None:
        if self._channels.get(channel.name) is not channel:
            return
        del self._channels[channel.name]
        was_subscribed = channel._joined is not None
        channel._fail(RealtimeError(f"{channel.name} was unsubscribed"))
        channel._end()
        if was_subscribed and self._connection is not None:
            with contextlib.suppress(*LOST):
                await self._connection.send({"event": "pusher:unsubscribe", "data": {"channel": channel.name}})

    async def _trigger(self, channel: Channel, event: str, data: Any) -> None:
        if self._connection is None or not channel.is_subscribed:
            raise NotConnected(f"{channel.name} is not subscribed now")
        try:
            await self._connection.send({"event": event, "channel": channel.name, "data": data})
        except LOST as error:
            raise NotConnected(f"the connection was lost: {error}") from error

    def _start_join(self, channel: Channel, seconds: float = 0) -> None:
        if self._connection is None:
            return
        join = asyncio.get_running_loop().create_task(self._join(self._connection, channel, seconds))
        self._joins.add(join)
        join.add_done_callback(self._joins.discard)

    async def _join(self, connection: Connection, channel: Channel, seconds: float) -> None:
        """Sends the subscription; tries again while it can't be authorized."""
        backoff = self._new_backoff()
        await asyncio.sleep(seconds)
        while self._channels.get(channel.name) is channel:
            try:
                async with self._authorizing:
                    authorization = await self._authorization(connection, channel)
            except Exception as error:
                if channel._fail(error):
                    return
                logger.warning("%s was not authorized: %r", channel.name, error)
                for call in channel._error_calls(error):
                    await self._calls.put(call)
                await asyncio.sleep(backoff.next_seconds())
                continue
            data = {"channel": channel.name, **authorization, **channel._recover()}
            # If the connection is lost, the next one subscribes.
            with contextlib.suppress(*LOST):
                await connection.send({"event": "pusher:subscribe", "data": data})
            return

    async def _authorization(self, connection: Connection, channel: Channel) -> dict[str, Any]:
        if not needs_authorization(channel.name):
            return {}
        if self._authorize is None:
            raise RealtimeError(f"{channel.name} needs an authorization: pass authorize to Client")
        authorization = self._authorize(connection.socket_id, channel.name)
        if inspect.isawaitable(authorization):
            authorization = await authorization
        if "channel_data" in authorization:
            self._users[channel.name] = str(json.loads(authorization["channel_data"]).get("user_id"))
        return dict(authorization)

    def _me(self, channel: Channel) -> str | None:
        return self._users.get(channel.name)

    def _on_rejected(self, channel: Channel, message: Message) -> list[Call]:
        error = rejection(channel, message)
        if channel._fail(error):
            return []
        if error.is_temporary:
            self._start_join(channel, self._new_backoff().next_seconds())
        else:
            del self._channels[channel.name]
            channel._end()
        logger.warning("%s", error)
        return channel._error_calls(error)

    def _new_backoff(self) -> Backoff:
        return Backoff(*self._backoff_seconds)
