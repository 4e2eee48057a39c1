"""Application servers behind the front, as Weir starts them."""

import json
import os
import signal
import sys
import threading
import unittest
from pathlib import Path

from server import Weir

BIN = Path(sys.executable).parent
GUNICORN = [str(BIN / "gunicorn"), "--workers", "1", "--log-level", "warning"]
COMMANDS = {
    "gunicorn": ([*GUNICORN, "--bind", "unix:{socket}", "wsgi:app"], ""),
    "gunicorn with threads": (
        [*GUNICORN, "--threads", "4", "--bind", "127.0.0.1:{port}", "wsgi:app"],
        "concurrency = 4\n",
    ),
    "gunicorn with an inherited socket": ([*GUNICORN, "--bind", "fd://{fd}", "wsgi:app"], ""),
    "uvicorn": (
        [str(BIN / "uvicorn"), "--uds", "{socket}", "--log-level", "warning", "asgi:app"],
        "concurrency = 20\n",
    ),
    "hypercorn": ([str(BIN / "hypercorn"), "--bind", "unix:{socket}", "asgi:app"], "concurrency = 20\n"),
    "node": (["node", "server.js", "{socket}"], "concurrency = 20\n"),
    "node on a port": (["node", "server.js", "{port}"], "concurrency = 20\n"),
}


def start(case, name, more="", tls=False):
    command, own = COMMANDS[name]
    weir = Weir(command, more=own + more, tls=tls)
    case.addCleanup(weir.close)
    return weir


class EachServer(unittest.TestCase):
    def test_requests_bodies_and_a_worker_that_dies(self):
        for name in COMMANDS:
            with self.subTest(name):
                weir = start(self, name)
                # Every request of a connection is routed by itself.
                connection = weir.connection()
                pids = {weir.get("/pid", connection)[1] for _ in range(6)}
                self.assertEqual(len(pids), 3)
                connection.close()
                body = b"x" * 300_000
                self.assertEqual(weir.post("/echo", body), (200, body))
                self.assertEqual(weir.post("/echo", body, chunked=True), (200, body))
                killed = weir.listed()["workers"][0]["pid"]
                os.kill(killed, signal.SIGKILL)
                weir.until(lambda: weir.listed()["workers"][0]["pid"] not in (None, killed))
                weir.until(lambda: len(weir.pids()) == 3)
                weir.close()

    def test_a_rolling_restart_loses_no_request(self):
        for name in COMMANDS:
            with self.subTest(name):
                weir = start(self, name)
                before, statuses, is_over = weir.pids(), [], threading.Event()

                def ask():
                    while not is_over.is_set():
                        statuses.append(weir.get("/pid")[0])

                clients = [threading.Thread(target=ask) for _ in range(4)]
                for client in clients:
                    client.start()
                weir.command("restart", "app")
                weir.until(lambda: weir.listed()["rolling"] == "finished")
                weir.until(lambda: not before & weir.pids())
                is_over.set()
                for client in clients:
                    client.join()
                self.assertEqual(set(statuses), {200})
                weir.close()


class Gunicorn(unittest.TestCase):
    def test_it_is_told_who_asks(self):
        weir = start(self, "gunicorn")
        address, protocol, host, started = weir.get("/headers")[1].split("\n")
        self.assertEqual((address, protocol), ("127.0.0.1", "http"))
        self.assertEqual(host, f"{weir.host}:{weir.port}")
        self.assertRegex(started, r"^t=\d{10}\.\d{3}$")

    def test_a_worker_that_is_stuck_is_replaced_and_the_others_go_on(self):
        weir = start(self, "gunicorn", 'evict_after = "300ms"\n')
        before = weir.pids()
        self.assertEqual(weir.get("/stuck")[0], 502)
        weir.until(lambda: len(weir.pids()) == 3)
        self.assertEqual(len(before & weir.pids()), 2)


class Streams(unittest.TestCase):
    def test_a_websocket_passes_through(self):
        for name in ("uvicorn", "hypercorn"):
            with self.subTest(name):
                weir = start(self, name)
                socket = weir.socket("/cable")
                for text in ("hello", "x" * 100_000):
                    socket.send(text)
                    self.assertEqual(socket.recv(), text.upper())
                socket.close()
                weir.close()

    def test_events_arrive_as_they_are_sent(self):
        for name in ("uvicorn", "hypercorn"):
            with self.subTest(name):
                weir = start(self, name)
                connection = weir.connection()
                connection.request("GET", "/events", headers={"Accept": "text/event-stream"})
                answer = connection.getresponse()
                self.assertEqual(answer.getheader("Content-Type"), "text/event-stream")
                lines = [answer.readline() for _ in range(3)]
                self.assertEqual(lines, [b"data: 0\n", b"\n", b"data: 1\n"])
                connection.close()
                weir.close()


class Tls(unittest.TestCase):
    def setUp(self):
        command, more = COMMANDS["uvicorn"]
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
