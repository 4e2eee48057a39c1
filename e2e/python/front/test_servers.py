"""Application servers behind the front, as Weir starts them."""

import functools
import json
import os
import shutil
import signal
import threading
import unittest

import commands
from server import Weir

LONG = b"x" * 300_000
PARTS = "".join(letter * 40_000 for letter in "abc")


def start(case, server, mode, more="", tls=False):
    command, own = server.settings(mode)
    weir = Weir(command, more=own + more, tls=tls)
    case.addCleanup(weir.close)
    return weir


def in_each_mode(test):
    """The test, for each way in which the server listens."""

    @functools.wraps(test)
    def run(self):
        for mode in self.server.commands:
            with self.subTest(mode):
                weir = start(self, self.server, mode)
                test(self, weir)
                weir.close()

    return run


class Requests:
    """What holds for every server, however it listens."""

    # A commands.Server.
    server = None

    @in_each_mode
    def test_requests_bodies_and_a_worker_that_dies(self, weir):
        # Every request of a connection is routed by itself.
        connection = weir.connection()
        connection.connect()
        socket = connection.sock
        pids = {weir.get("/pid", connection)[1] for _ in range(6)}
        self.assertEqual(len(pids), 3)
        self.assertEqual(weir.get("/parts", connection), (200, PARTS))
        self.assertIs(connection.sock, socket, "the connection was kept")
        connection.close()
        self.assertEqual(weir.post("/echo", LONG), (200, LONG))
        self.assertEqual(weir.post("/echo", LONG, chunked=True), (200, LONG))
        killed = weir.listed()["workers"][0]["pid"]
        os.kill(killed, signal.SIGKILL)
        weir.until(lambda: weir.listed()["workers"][0]["pid"] not in (None, killed))
        weir.until(lambda: len(weir.pids()) == 3)

    @in_each_mode
    def test_a_rolling_restart_loses_no_request(self, weir):
        before, statuses, is_over = weir.pids(), [], threading.Event()

        def ask():
            while not is_over.is_set():
                statuses.append(weir.get("/pid")[0])

        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        try:
            weir.command("restart", "app")
            weir.until(lambda: weir.listed()["rolling"] == "finished")
            weir.until(lambda: not before & weir.pids())
        finally:
            is_over.set()
            for client in clients:
                client.join()
        self.assertEqual(set(statuses), {200})

    @in_each_mode
    def test_events_arrive_as_they_are_sent(self, weir):
        connection = weir.connection()
        connection.request("GET", "/events", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
        lines = [answer.readline() for _ in range(3)]
        self.assertEqual(lines, [b"data: 0\n", b"\n", b"data: 1\n"])
        connection.close()


class WebSockets:
    """What holds for servers that know WebSockets."""

    # Modes in which they don't.
    without = ()

    def test_a_websocket_passes_through(self):
        for mode in [mode for mode in self.server.commands if mode not in self.without]:
            with self.subTest(mode):
                weir = start(self, self.server, mode)
                socket = weir.socket("/cable")
                for text in ("hello", "x" * 100_000):
                    socket.send(text)
                    self.assertEqual(socket.recv(), text.upper())
                socket.close()
                weir.close()


class Gunicorn(Requests, unittest.TestCase):
    server = commands.GUNICORN

    def test_it_is_told_who_asks(self):
        weir = start(self, self.server, "socket")
        address, protocol, host, started = weir.get("/headers")[1].split("\n")
        self.assertEqual((address, protocol), ("127.0.0.1", "http"))
        self.assertEqual(host, f"{weir.host}:{weir.port}")
        self.assertRegex(started, r"^t=\d{10}\.\d{3}$")

    def test_a_worker_that_is_stuck_is_replaced_and_the_others_go_on(self):
        weir = start(self, self.server, "socket", 'evict_after = "300ms"\n')
        before = weir.pids()
        self.assertEqual(weir.get("/stuck")[0], 502)
        weir.until(lambda: len(weir.pids()) == 3)
        self.assertEqual(len(before & weir.pids()), 2)


class Uvicorn(Requests, WebSockets, unittest.TestCase):
    server = commands.UVICORN


class Hypercorn(Requests, WebSockets, unittest.TestCase):
    server = commands.HYPERCORN


class Granian(Requests, WebSockets, unittest.TestCase):
    server = commands.GRANIAN
    without = {"socket, WSGI"}


class Puma(Requests, WebSockets, unittest.TestCase):
    server = commands.PUMA


class Unicorn(Requests, unittest.TestCase):
    server = commands.UNICORN


class Node(Requests, WebSockets, unittest.TestCase):
    server = commands.NODE


@unittest.skipUnless(shutil.which("go"), "go is not installed (Debian: golang-go)")
class Go(Requests, WebSockets, unittest.TestCase):
    server = property(lambda self: commands.go())


class Tls(unittest.TestCase):
    def setUp(self):
        command, more = commands.UVICORN.settings("socket")
        self.weir = Weir(command, more=more, tls=True)
        self.addCleanup(self.weir.close)

    def test_requests_and_sockets_of_an_app(self):
        body = b"x" * 300_000
        self.assertEqual(self.weir.post("/echo", body), (200, body))
        socket = self.weir.socket("/cable")
        socket.send("y" * 200_000)
        self.assertEqual(socket.recv(), "Y" * 200_000)
        socket.close()

    def test_realtime_with_more_waiting_than_a_socket_takes(self):
        socket = self.weir.socket("/app/demo-key?protocol=7")
        self.assertEqual(json.loads(socket.recv())["event"], "pusher:connection_established")
        socket.send(json.dumps({"event": "pusher:subscribe", "data": {"channel": "news"}}))
        self.assertEqual(json.loads(socket.recv())["event"], "pusher_internal:subscription_succeeded")
        events = [f"{number} " + "x" * 9_000 for number in range(25)]
        for data in events:
            self.weir.run("realtime", "publish", "1", "news", "flood", json.dumps(data))
        heard = [json.loads(socket.recv())["data"] for _ in events]
        self.assertEqual([json.loads(data) if data.startswith('"') else data for data in heard], events)
        socket.close()


if __name__ == "__main__":
    unittest.main()
