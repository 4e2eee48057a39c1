"""Clients and servers of the realtime tests: a proxy that cuts connections, and a record of what arrived."""

import asyncio
import unittest

import pusher

from weir import APP_ID, APP_KEY, APP_SECRET, DEADLINE_SECONDS, Weir
from weir_realtime import Client, sign_with_secret

SETTINGS = f"""
[realtime]
drain_window = "100ms"

[[realtime.apps]]
id = "{APP_ID}"
key = "{APP_KEY}"
secret = {{ env = "WEIR_E2E_SECRET" }}
client_events = true
history = {{ events_max = 1000, bytes_max = "1MiB" }}

[[realtime.apps]]
id = "2"
key = "short-key"
secret = {{ env = "WEIR_E2E_SECRET" }}
history = {{ events_max = 2 }}
presence = {{ list_max = 2, advanced.gather = "20ms" }}
"""


class Proxy:
    """A TCP proxy in front of a Weir. While it is shut, connections wait."""

    def __init__(self, address):
        self._address, self._pairs = address, set()
        self._open = asyncio.Event()
        self._open.set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self._open.set()
        self.cut()

    def cut(self):
        """Resets all connections, with what is under way."""
        for writers in self._pairs:
            for writer in writers:
                writer.transport.abort()

    def shut(self):
        self._open.clear()
        self.cut()

    def open(self):
        self._open.set()

    async def _join(self, reader, writer):
        await self._open.wait()
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self._address)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, upstream_writer)
        self._pairs.add(pair)
        await asyncio.gather(self._copy(reader, upstream_writer), self._copy(upstream_reader, writer))
        self._pairs.discard(pair)

    async def _copy(self, reader, writer):
        try:
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        writer.close()


class Record(list):
    """What was heard, in order."""

    def __init__(self):
        super().__init__()
        self._changed = asyncio.Condition()

    async def add(self, item):
        async with self._changed:
            self.append(item)
            self._changed.notify_all()

    async def until(self, count):
        """All of it, once it is so many."""
        async with self._changed:
            try:
                async with asyncio.timeout(DEADLINE_SECONDS):
                    await self._changed.wait_for(lambda: len(self) >= count)
            except TimeoutError:
                raise AssertionError(f"waited {DEADLINE_SECONDS} s for {count}, heard {self}") from None
        return list(self)


def heard(channel):
    """All that a channel calls its handlers with, as (kind, value)."""
    record = Record()
    channel.on_any(lambda event: record.add((event.name, event.data)))
    channel.on_gap(lambda position: record.add(("gap", position)))
    channel.on_recovered(lambda events: record.add(("recovered", events)))
    channel.on_error(lambda error: record.add(("error", error)))
    channel.on_member_added(lambda user: record.add(("added", user)))
    channel.on_member_removed(lambda user: record.add(("removed", user)))
    return record


class RealtimeCase(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = Weir(SETTINGS)
        cls.addClassCleanup(cls.weir.remove)

    def client(self, user=None, key=APP_KEY, port=None, **more):
        """A client that reconnects soon."""
        host, own_port = self.weir.front
        options = {"authorize": sign_with_secret(key, APP_SECRET, user_id=user, user_info={"name": user})}
        options |= {"backoff_first": 0.05, "backoff_max": 0.2} | more
        return Client(f"ws://{host}:{port or own_port}", key, **options)

    async def publish(self, channel, name, data, app=(APP_ID, APP_KEY)):
        """PyPI `pusher`: the application's server."""
        host, port = self.weir.front
        server = pusher.Pusher(app_id=app[0], key=app[1], secret=APP_SECRET, host=host, port=port, ssl=False)
        await asyncio.to_thread(server.trigger, channel, name, data)


async def wait_for(probe, what):
    """Polls until `probe()` is true."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not probe():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited {DEADLINE_SECONDS} s for: {what}") from None
