"""packages/weir-realtime-python without Weir: rules, and a server that behaves as a real one rarely does."""

import asyncio
import json
import logging
import random
import unittest

from realtime import heard, wait_for
from websockets.asyncio.server import serve
from weir_realtime import Client, Position
from weir_realtime.backoff import Backoff
from weir_realtime.position import Progress

for name in ("weir_realtime", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL)

EPOCH = "00000000000000ab"


class RulesTest(unittest.TestCase):
    def test_waits_double_up_to_the_limit_and_are_random(self):
        ceilings = []
        backoff = Backoff(1, 5, lambda low, high: ceilings.append((low, high)) or high)
        self.assertEqual([backoff.next_seconds() for _ in range(5)], [1, 2, 4, 5, 5])
        self.assertEqual({low for low, _ in ceilings}, {0})
        backoff.reset()
        self.assertEqual(backoff.next_seconds(), 1)
        seeded = Backoff(1, 30, random.Random(7).uniform)
        self.assertEqual(len({seeded.next_seconds() for _ in range(20)}), 20)

    def test_positions_are_read_and_written(self):
        self.assertEqual(Position.parse(f"{EPOCH}:7"), Position(EPOCH, 7))
        for wrong in ("", "7", f"{EPOCH}:", ":7", f"{EPOCH}:-1", f"{EPOCH}:x"):
            with self.assertRaises(ValueError):
                Position.parse(wrong)

    def test_only_new_events_are_taken(self):
        at = lambda offset, epoch=EPOCH: Position(epoch, offset)  # noqa: E731
        progress = Progress()
        progress.joined(at(5), False)
        self.assertEqual([progress.takes(at(offset)) for offset in (6, 6, 7, 6)], [True, False, True, False])
        self.assertTrue(progress.takes(None), "a client event")
        # Missed events follow the subscription: its position must not hide them.
        progress.joined(at(9), True)
        self.assertEqual(progress.position, at(7))
        self.assertEqual([progress.takes(at(offset)) for offset in (8, 9)], [True, True])
        self.assertTrue(progress.takes(at(1, "another")), "offsets of another epoch can't be compared")
        self.assertEqual(progress.position, at(1, "another"))

    def test_the_last_event_of_a_cache_channel_does_not_turn_the_position_back(self):
        progress = Progress()
        progress.joined(Position(EPOCH, 5), False)
        self.assertTrue(progress.takes(Position(EPOCH, 4)))
        self.assertEqual(progress.position, Position(EPOCH, 5))


class ImitatedServerTest(unittest.IsolatedAsyncioTestCase):
    async def serve(self, talk, activity_timeout=120):
        """A server that runs `talk(socket, n)` for its n-th connection."""
        self.connections = 0

        async def accept(socket):
            self.connections += 1
            data = json.dumps({"socket_id": f"1.{self.connections}", "activity_timeout": activity_timeout})
            await socket.send(json.dumps({"event": "pusher:connection_established", "data": data}))
            await talk(socket, self.connections)

        server = await serve(accept, "127.0.0.1", 0)
        self.addAsyncCleanup(server.wait_closed)
        self.addCleanup(server.close)
        return f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def test_a_silent_connection_is_pinged_and_given_up_without_a_pong(self):
        pings = []

        async def talk(socket, number):
            pings.append(json.loads(await socket.recv())["event"])
            await socket.wait_closed()

        url = await self.serve(talk, activity_timeout=0.02)
        async with Client(url, "key", pong_timeout=0.05, backoff_first=0.01):
            await wait_for(lambda: len(pings) >= 2, "a second connection")
        self.assertEqual(set(pings), {"pusher:ping"})

    async def test_pings_of_the_server_get_a_pong(self):
        pongs = []

        async def talk(socket, number):
            await socket.send('{"event":"pusher:ping","data":{}}')
            pongs.append(json.loads(await socket.recv())["event"])
            await socket.wait_closed()

        async with Client(await self.serve(talk), "key"):
            await wait_for(lambda: pongs, "a pong")
        self.assertEqual(pongs, ["pusher:pong"])

    async def test_a_code_of_4200_reconnects_without_a_wait(self):
        async def talk(socket, number):
            if number < 3:
                await socket.close(4200)
            await socket.wait_closed()

        # Any other code would wait for up to an hour.
        async with Client(await self.serve(talk), "key", backoff_first=3600, backoff_max=3600):
            await wait_for(lambda: self.connections == 3, "a third connection")

    async def test_a_gap_without_a_reconnect_moves_the_position(self):
        subscriptions = []

        async def talk(socket, number):
            subscriptions.append(json.loads(await socket.recv())["data"].get("recover"))
            succeeded = {"event": "pusher_internal:subscription_succeeded", "channel": "news", "data": "{}"}
            await socket.send(json.dumps({**succeeded, "epoch": EPOCH, "offset": 5}))
            gap = {"event": "weir:gap", "channel": "news", "data": json.dumps({"epoch": EPOCH, "offset": 9})}
            await socket.send(json.dumps(gap))
            await socket.send(
                json.dumps({"event": "count", "channel": "news", "data": "1", "epoch": EPOCH, "offset": 10})
            )
            if number == 1:
                await socket.close(4100)
            await socket.wait_closed()

        async with Client(await self.serve(talk), "key", backoff_first=0.01) as client:
            channel = client.channel("news")
            record = heard(channel)
            await channel.subscribe()
            await wait_for(lambda: len(subscriptions) == 2, "another subscription")
            await record.until(3)
        self.assertEqual(record[:2], [("gap", Position(EPOCH, 9)), ("count", 1)])
        self.assertEqual(subscriptions, [None, {"epoch": EPOCH, "offset": 10}])

    async def test_what_is_no_pusher_server_is_tried_again(self):
        async def talk(socket, number):
            if number < 3:
                await socket.send("[1]")
            await socket.wait_closed()

        async with Client(await self.serve(talk), "key", backoff_first=0.01):
            await wait_for(lambda: self.connections == 3, "a third connection")
