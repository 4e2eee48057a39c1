"""The app that the realtime tests use, its clients and its server."""

import os
import threading
import unittest
import uuid
from urllib.parse import urlsplit

import pusher
import pysher

URL = urlsplit(os.environ["WEIR_REALTIME_URL"])
APP_ID = URL.path.rpartition("/")[2]
KEY, SECRET = URL.username, URL.password

# Longest wait for anything.
DEADLINE_SECONDS = 10


def unique(prefix):
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def backend(secret=SECRET):
    """PyPI `pusher`: the application's server."""
    return pusher.Pusher(
        app_id=APP_ID, key=KEY, secret=secret, host=URL.hostname, port=URL.port, ssl=False
    )


class Record:
    """What was heard, in order; callbacks come on the client's thread."""

    def __init__(self):
        self._heard, self._changed = [], threading.Condition()

    def __call__(self, *data):
        with self._changed:
            self._heard.append(data[0] if data else None)
            self._changed.notify_all()

    def until(self, count):
        """All of it, once it is so many."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._heard) >= count, DEADLINE_SECONDS):
                raise AssertionError(f"waited {DEADLINE_SECONDS} s for {count}, heard {self._heard}")
            return list(self._heard)


class RealtimeCase(unittest.TestCase):
    def setUp(self):
        self.backend = backend()

    def connect(self, user=None, key=KEY):
        """PyPI `pysher`: a client that is connected."""
        user_data = {"user_id": user, "user_info": {"name": user}} if user else None
        client = pysher.Pusher(
            key, custom_host=URL.hostname, port=URL.port, secure=False, secret=SECRET, user_data=user_data
        )
        client.pongs = Record()
        client.connection.bind("pusher:pong", client.pongs)
        client.connect()
        # Without waiting: its thread waits for a socket's timeout.
        self.addCleanup(client.disconnect, 0)
        # It pings as soon as it is connected.
        client.pongs.until(1)
        return client

    def round_trip(self, client):
        """Once this comes back, the server has handled all that the client sent before."""
        count = len(client.pongs.until(0))
        client.connection.send_ping()
        client.pongs.until(count + 1)

    def subscribe(self, client, name, *events):
        """Subscribes, waits until it holds; gives the channel and what is heard of each event."""
        # Its answer may come before pysher knows the channel; nothing else is sent before the ping's.
        channel = client.subscribe(name)
        records = [Record() for _ in events]
        for event, record in zip(events, records):
            channel.bind(event, record)
        self.round_trip(client)
        return channel, records
