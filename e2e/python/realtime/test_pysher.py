"""PyPI `pysher`, the client, against a live server; events are published with PyPI `pusher`."""

import json
import logging
import threading

import pysher

from app import URL, Record, RealtimeCase, unique

logging.disable(logging.CRITICAL)


class PysherTest(RealtimeCase):
    def test_an_event_reaches_every_kind_of_channel(self):
        client = self.connect(user="ada")
        for kind in ("public", "private", "presence"):
            name = unique(kind)
            _, (heard,) = self.subscribe(client, name, "news")
            data = {"text": "ünïcödé", "number": 2**53 + 1}
            self.backend.trigger(name, "news", data)
            self.assertEqual(json.loads(heard.until(1)[0]), data)

    def test_members_come_and_go(self):
        name = unique("presence")
        _, (added, removed) = self.subscribe(
            self.connect(user="ada"), name, "pusher_internal:member_added", "pusher_internal:member_removed"
        )
        grace = self.connect(user="grace")
        self.subscribe(grace, name)
        self.assertEqual(json.loads(added.until(1)[0]), {"user_id": "grace", "user_info": {"name": "grace"}})
        grace.unsubscribe(name)
        self.assertEqual(json.loads(removed.until(1)[0]), {"user_id": "grace"})

    def test_an_event_of_a_client_reaches_the_others(self):
        name = unique("private")
        sender, _ = self.subscribe(self.connect(), name)
        _, (heard,) = self.subscribe(self.connect(), name, "client-typing")
        sender.trigger("client-typing", {"at": 1})
        self.assertEqual(json.loads(heard.until(1)[0]), {"at": 1})

    def test_a_key_that_nobody_has_ends_it(self):
        client = pysher.Pusher("nobody", custom_host=URL.hostname, port=URL.port, secure=False)
        error = Record()
        client.connection.bind("pusher:error", error)
        client.connect()
        self.assertEqual(error.until(1)[0]["code"], 4001)
        client.connection.join(timeout=10)
        self.assertFalse(client.connection.is_alive(), "pysher ends for good")


# A thread of pysher that dies with its socket says so: its own affair.
threading.excepthook = lambda failure: None
