"""packages/weir-realtime-python against a real Weir: channels, members, client events, authorization, recovery."""

import asyncio
import logging

from realtime import Proxy, RealtimeCase, heard, wait_for
from weir import unique
from weir_realtime import ConnectionRejected, NotConnected, Position, RealtimeError, SubscriptionRejected

for name in ("weir_realtime", "asyncio"):
    logging.getLogger(name).setLevel(logging.CRITICAL)

SHORT = ("2", "short-key")


class ChannelTest(RealtimeCase):
    async def test_an_event_reaches_every_kind_of_channel(self):
        async with self.client("ada") as client:
            for kind in ("public", "private", "presence", "cache", "private-cache"):
                channel = client.channel(unique(kind))
                record, named = heard(channel), []
                channel.on("news", named.append)
                await channel.subscribe()
                data = {"text": "ünïcödé", "number": 2**53 + 1, "list": [None, 1.5]}
                await self.publish(channel.name, "news", data)
                await self.publish(channel.name, "other", "no JSON")
                self.assertEqual(await record.until(2), [("news", data), ("other", "no JSON")])
                self.assertEqual([(event.data, event.channel) for event in named], [(data, channel.name)])
                self.assertEqual(Position.parse(str(named[0].position)), named[0].position)

    async def test_members_come_and_go(self):
        name = unique("presence")
        async with self.client("ada") as ada, self.client("grace") as grace:
            room = ada.channel(name)
            record = heard(room)
            await room.subscribe()
            self.assertEqual(
                (dict(room.members), room.members.me, room.members.count), ({"ada": {"name": "ada"}}, "ada", 1)
            )
            other = grace.channel(name)
            await other.subscribe()
            self.assertEqual(set(other.members), {"ada", "grace"})
            await record.until(1)
            self.assertEqual(dict(room.members), {"ada": {"name": "ada"}, "grace": {"name": "grace"}})
            await other.unsubscribe()
            self.assertEqual(await record.until(2), [("added", "grace"), ("removed", "grace")])
            self.assertEqual((set(room.members), room.members.count), ({"ada"}, 1))

    async def test_a_large_presence_channel_is_counted(self):
        name, rooms = unique("presence"), []
        for user in ("ada", "grace", "joan"):
            client = await self.client(user, key="short-key").__aenter__()
            self.addAsyncCleanup(client.close)
            rooms.append(client.channel(name))
            await rooms[-1].subscribe()
        for room in rooms:
            await wait_for(lambda: room.members.count == 3, "three members")
            self.assertFalse(room.members.is_complete)
        self.assertEqual(dict(rooms[2].members), {"joan": {"name": "joan"}})
        await rooms[2].unsubscribe()
        await wait_for(lambda: rooms[0].members.is_complete, "the list of two")
        self.assertEqual(set(rooms[0].members), {"ada", "grace"})

    async def test_an_event_of_a_client_reaches_the_others(self):
        name = unique("presence")
        async with self.client("ada") as ada, self.client("grace") as grace:
            rooms = [client.channel(name) for client in (ada, grace)]
            records, users = [heard(room) for room in rooms], []
            rooms[1].on("client-typing", lambda event: users.append((event.user_id, event.position)))
            for room in rooms:
                await room.subscribe()
            await rooms[0].trigger("client-typing", {"at": 1})
            await self.publish(name, "end", {})
            self.assertEqual(await records[1].until(2), [("client-typing", {"at": 1}), ("end", {})])
            self.assertEqual(await records[0].until(2), [("added", "grace"), ("end", {})])
            self.assertEqual(users, [("ada", None)])
            with self.assertRaisesRegex(ValueError, "begin with client-"):
                await rooms[0].trigger("typing", {})
            await rooms[0].unsubscribe()
            with self.assertRaises(NotConnected):
                await rooms[0].trigger("client-typing", {})

    async def test_after_an_unsubscription_nothing_arrives_and_the_channel_begins_anew(self):
        async with self.client() as client:
            channel = client.channel(unique("public"))
            record = heard(channel)
            await channel.subscribe()
            await self.publish(channel.name, "count", 1)
            await record.until(1)
            await channel.unsubscribe()
            await self.publish(channel.name, "count", 2)
            await channel.subscribe()
            await self.publish(channel.name, "count", 3)
            self.assertEqual(await record.until(2), [("count", 1), ("count", 3)])

    async def test_handlers_run_in_order_and_an_error_in_one_ends_nothing(self):
        async with self.client(queue_max=1) as client:
            channel, order = client.channel(unique("public")), []

            async def slow(event):
                await asyncio.sleep(0.01)
                order.append(event.data)

            def broken(event):
                raise RuntimeError("of the test")

            channel.on("count", broken)
            channel.on("count", slow)
            record = heard(channel)
            await channel.subscribe()
            for number in range(20):
                await self.publish(channel.name, "count", number)
            await record.until(20)
            self.assertEqual(order, list(range(20)))


class AuthorizationTest(RealtimeCase):
    async def test_a_rejected_subscription_is_an_error_and_the_client_goes_on(self):
        wrong = {"auth": "e2e-key:0000"}
        async with self.client(authorize=lambda socket, name: wrong) as client:
            channel = client.channel(unique("private"))
            with self.assertRaises(SubscriptionRejected) as caught:
                await channel.subscribe()
            self.assertEqual((caught.exception.status, caught.exception.is_temporary), (401, False))
            self.assertFalse(channel.is_subscribed)
            await client.channel(unique("public")).subscribe()

    async def test_an_error_of_authorize_reaches_the_caller(self):
        async def authorize(socket_id, channel):
            raise LookupError(channel)

        async with self.client(authorize=authorize) as client:
            with self.assertRaises(LookupError):
                await client.channel("private-x").subscribe()
        async with self.client(authorize=None) as client:
            with self.assertRaisesRegex(RealtimeError, "pass authorize"):
                await client.channel("private-x").subscribe()
            with self.assertRaisesRegex(ValueError, "encrypted"):
                client.channel("private-encrypted-x")

    async def test_after_a_reconnect_it_is_tried_again_until_it_works(self):
        sign, failures = self.client()._authorize, []

        async def authorize(socket_id, channel):
            if 0 < len(failures) < 3:
                failures.append(channel)
                raise ConnectionError("the application restarts as well")
            return sign(socket_id, channel)

        async with Proxy(self.weir.front) as proxy, self.client(authorize=authorize, port=proxy.port) as client:
            channel = client.channel(unique("private"))
            record = heard(channel)
            await channel.subscribe()
            failures.append("from now on")
            proxy.cut()
            await record.until(3)
            self.assertEqual([kind for kind, _ in record], ["error", "error", "recovered"])

    async def test_a_key_that_no_app_has_ends_the_client(self):
        with self.assertRaises(ConnectionRejected) as caught:
            async with self.client(key="nobody"):
                self.fail("it connected")
        self.assertEqual(caught.exception.code, 4001)

    async def test_use_outside_of_the_client_is_an_error(self):
        client = self.client()
        channel = client.channel("public-x")
        with self.assertRaisesRegex(RealtimeError, "async with client"):
            await channel.subscribe()
        async with client:
            await channel.subscribe()
            with self.assertRaisesRegex(RealtimeError, "another Channel"):
                await client.channel("public-x").subscribe()
        await client.wait_closed()
        with self.assertRaisesRegex(RealtimeError, "async with client"):
            await channel.subscribe()
        with self.assertRaises(ValueError):
            self.client(backoff_first=0)


class RecoveryTest(RealtimeCase):
    async def test_each_event_arrives_once_and_in_order_across_cuts(self):
        async with Proxy(self.weir.front) as proxy:
            for kind in ("public", "private", "presence"):
                await self._cut_while_events_are_published(proxy, unique(kind))

    async def _cut_while_events_are_published(self, proxy, name, clients=3, events=60):
        opened = [self.client(f"user-{number}", port=proxy.port) for number in range(clients)]
        channels = []
        for client in opened:
            await client.__aenter__()
            self.addAsyncCleanup(client.close)
            channels.append(client.channel(name))
        records = [heard(channel) for channel in channels]
        for channel in channels:
            await channel.subscribe()
        for number in range(events):
            if number % 15 == 7:
                await wait_for(lambda: all(channel.is_subscribed for channel in channels), "all subscribed")
                proxy.cut()
            await self.publish(name, "count", number)
        recovered = 0
        for record in records:
            await wait_for(lambda: ("count", events - 1) in record, "the last event")
            self.assertEqual([data for kind, data in record if kind == "count"], list(range(events)))
            self.assertNotIn("gap", [kind for kind, _ in record])
            recovered += sum(data for kind, data in record if kind == "recovered")
        self.assertGreater(recovered, 0)

    async def test_a_client_that_was_away_too_long_is_told_of_the_gap_and_continues(self):
        async with Proxy(self.weir.front) as proxy, self.client(key="short-key", port=proxy.port) as client:
            channel = client.channel(unique("public"))
            record = heard(channel)
            await channel.subscribe()
            await self.publish(channel.name, "count", 0, SHORT)
            await record.until(1)
            proxy.shut()
            for number in range(1, 5):
                await self.publish(channel.name, "count", number, SHORT)
            proxy.open()
            (kind, position) = (await record.until(2))[1]
            self.assertEqual((kind, position.offset), ("gap", 5))
            await self.publish(channel.name, "count", 5, SHORT)
            self.assertEqual((await record.until(3))[2], ("count", 5))

    async def test_a_graceful_restart_is_recovered_and_a_crash_is_a_gap(self):
        async with self.client() as client:
            channel = client.channel(unique("public"))
            record = heard(channel)
            await channel.subscribe()
            await self.publish(channel.name, "count", 0)
            await record.until(1)
            await asyncio.to_thread(self.weir.restart)
            await self.publish(channel.name, "count", 1)
            await wait_for(lambda: ("count", 1) in record, "the event after the restart")
            self.assertEqual([data for kind, data in record if kind == "count"], [0, 1])
            self.assertIn("recovered", [kind for kind, _ in record])
            self.weir.kill_service()
            await wait_for(lambda: "gap" in [kind for kind, _ in record], "the gap after the crash")

    async def test_a_program_continues_where_its_last_run_ended(self):
        name, positions = unique("public"), []
        async with self.client() as client:
            channel = client.channel(name)
            channel.on_any(lambda event: positions.append(str(event.position)))
            await channel.subscribe()
            await self.publish(name, "count", 1)
            await wait_for(lambda: positions, "an event")
        await self.publish(name, "count", 2)
        async with self.client() as client:
            channel = client.channel(name, position=Position.parse(positions[-1]))
            record = heard(channel)
            await channel.subscribe()
            self.assertEqual(await record.until(2), [("recovered", 1), ("count", 2)])
