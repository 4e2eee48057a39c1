#!/usr/bin/env python3
"""What clients lose while Weir replaces itself: `restarts.py [RESTARTS] [UPGRADES] [SERVER ..]`, 100 and 20 by default.

In front of each application server (go, node, uvicorn, gunicorn, puma; one that is not installed is skipped, and said
so) clients POST over connections that they keep, quick responses and streamed ones (ten pieces in two seconds), and
wait between a response and the next request for as long as real ones do: 0 ms to 20 s. WebSockets echo all the time.
Meanwhile `weir restart` and `weir upgrade` replace the service process.

Prints one line of JSON for each server: requests, those that were lost, the upper end of the 95 % confidence interval
of the rate of loss, WebSockets and how many of them were cut before their deadline (`front.stream_drain`). Exits with
1 if there was any loss. WEIR_BIN is the program; run it with e2e/.venv/bin/python, where the servers are.
"""

import contextlib
import http.client
import json
import math
import os
import random
import select
import shutil
import sys
import threading
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

import commands
from server import Weir

ROOT = Path(__file__).resolve().parents[3]
# Seconds between a response and the next request of its connection. Most clients are busy.
WAITS = [0] * 14 + [0.02] * 14 + [0.45] * 3 + [0.55] * 3 + [3] * 2 + [20]
STREAMED = 0.15
CLIENTS = 40
SOCKETS = 5
BODY = b"x" * 2_000
STREAM_DRAIN = 20
# Between two replacements: long enough that fewer than 16 old processes wait for a stream's deadline or for
# the next request of an idle connection. Of more than 16 Weir ends the oldest.
PAUSE = 1.7
# Nothing but the replacements is to fail.
SETTINGS = """queue_timeout = "60s"
advanced.overload_after = "1h"
"""
FRONT = f'stream_drain = "{STREAM_DRAIN}s"\n'
SUPERVISOR = "[supervisor]\nold_processes_max = 16\n"


class Clients:
    """They, with what has become of their requests."""

    def __init__(self, weir, seed):
        self.weir, self.random = weir, random.Random(seed)
        self.lock, self.is_over = threading.Lock(), threading.Event()
        self.requests = self.streamed = self.dropped_idle = 0
        self.lost = []
        self.threads = [threading.Thread(target=self.go_on) for _ in range(CLIENTS)]

    def go_on(self):
        connection = self.weir.connection()
        while not self.is_over.is_set():
            is_streamed, wait = self.random.random() < STREAMED, self.random.choice(WAITS)
            self.post(connection, "/pieces" if is_streamed else "/echo")
            self.is_over.wait(wait)
            if connection.sock and is_readable(connection.sock):
                # As connection pools do. No idle timeout is as short as our waits.
                with self.lock:
                    self.dropped_idle += 1
                connection.close()
        connection.close()

    def post(self, connection, path):
        is_reused = connection.sock is not None
        began = time.monotonic()
        try:
            connection.request("POST", path, body=BODY)
            response = connection.getresponse()
            body, outcome = response.read(), response.status
            if outcome == 200 and body != (BODY if path == "/echo" else b"piece\n" * 10):
                outcome = f"{len(body)} bytes"
        except (OSError, http.client.HTTPException) as error:
            outcome = type(error).__name__
            connection.close()
        with self.lock:
            self.requests += 1
            self.streamed += path == "/pieces"
            if outcome != 200:
                self.lost.append((path, outcome, is_reused, round(time.monotonic() - began, 3)))


class Sockets:
    """WebSockets that echo until they are closed, and come back."""

    def __init__(self, weir, replacements):
        self.weir, self.replacements = weir, replacements
        self.is_over, self.lock = threading.Event(), threading.Lock()
        self.opened = self.at_deadline = 0
        self.cut = []
        self.threads = [threading.Thread(target=self.go_on) for _ in range(SOCKETS)]

    def go_on(self):
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect

        while not self.is_over.is_set():
            opened = time.monotonic()
            try:
                with connect(f"ws://{self.weir.host}:{self.weir.port}/cable", close_timeout=5) as socket:
                    with self.lock:
                        self.opened += 1
                    while not self.is_over.wait(0.2):
                        socket.send("ping")
                        if (echo := socket.recv(timeout=10)) != "PING":
                            raise ValueError(echo)
            except ConnectionClosed as closed:
                self.closed(opened, closed.rcvd.code if closed.rcvd else "no close frame")
            except Exception as error:  # Whatever it is, it is a loss.
                self.closed(opened, f"{type(error).__name__}: {error}")

    def closed(self, opened, why):
        # One that was opened during a replacement may be with the old process.
        since = next((begun for begun, ended in self.replacements if ended > opened), None)
        is_due = since is not None and time.monotonic() - since >= STREAM_DRAIN
        with self.lock:
            if why == 1001 and is_due:
                self.at_deadline += 1
            else:
                self.cut.append(why)


def is_readable(socket):
    return bool(select.select([socket], [], [], 0)[0])


def upper_bound(lost, requests):
    """The rate of loss at which so few losses would still have a chance of 5 % (Poisson)."""
    low, high = 0.0, 10.0 + 3 * lost
    for _ in range(60):
        middle = (low + high) / 2
        chance = sum(math.exp(-middle) * middle**k / math.factorial(k) for k in range(lost + 1))
        low, high = (middle, high) if chance > 0.05 else (low, middle)
    return high / max(requests, 1)


def trial(name, server, restarts, upgrades):
    mode = "port, threads" if name == "gunicorn" else "socket"
    command, own = server.settings(mode)
    weir = Weir(command, more=own + SETTINGS + SUPERVISOR, front=FRONT)
    replacements = []
    with contextlib.closing(weir):
        clients = Clients(weir, seed=name)
        sockets = Sockets(weir, replacements)
        running = clients.threads + (sockets.threads if name != "gunicorn" else [])
        for thread in running:
            thread.start()
        try:
            plan = ["restart"] * restarts + ["upgrade"] * upgrades
            clients.random.shuffle(plan)
            for how in plan:
                time.sleep(PAUSE)
                # Begun, and ended.
                replacements.append([time.monotonic(), math.inf])
                weir.run(how)
                replacements[-1][1] = time.monotonic()
            # Those that wait for longest use their connections once more.
            time.sleep(max(WAITS) + 3)
        finally:
            clients.is_over.set()
            sockets.is_over.set()
            for thread in running:
                thread.join()
    lost = len(clients.lost)
    line = {
        "server": name,
        "restarts": restarts,
        "upgrades": upgrades,
        "requests": clients.requests,
        "streamed": clients.streamed,
        "lost": lost,
        "loss_rate_95_percent_upper_bound": float(f"{upper_bound(lost, clients.requests):.2g}"),
        "how": clients.lost[:10],
        "idle_connections_closed": clients.dropped_idle,
        "websockets": sockets.opened,
        "websockets_at_deadline": sockets.at_deadline,
        "websockets_cut": sockets.cut,
    }
    print(json.dumps(line), flush=True)
    return not lost and not sockets.cut and not clients.dropped_idle


def servers():
    """Each with its command, or why there is none."""
    installed = {
        "go": shutil.which("go"),
        "node": shutil.which("node") and (ROOT / "e2e/node/node_modules/ws").exists(),
        "uvicorn": (commands.BIN / "uvicorn").exists(),
        "gunicorn": (commands.BIN / "gunicorn").exists(),
        "puma": shutil.which("puma"),
    }
    makers = {
        "go": commands.go,
        "node": lambda: commands.NODE,
        "uvicorn": lambda: commands.UVICORN,
        "gunicorn": lambda: commands.GUNICORN,
        "puma": lambda: commands.PUMA,
    }
    return {name: makers[name] if installed[name] else None for name in makers}


def main(arguments):
    counts = [int(argument) for argument in arguments if argument.isdigit()]
    names = [argument for argument in arguments if not argument.isdigit()]
    restarts, upgrades = [*counts, *[100, 20][len(counts) :]][:2]
    held = True
    for name, make in servers().items():
        if names and name not in names:
            continue
        if make is None:
            print(json.dumps({"server": name, "skipped": "not installed (e2e/setup, e2e/packages.txt)"}), flush=True)
            continue
        held &= trial(name, make(), restarts, upgrades)
    return 0 if held else 1


if __name__ == "__main__":
    os.environ["WEIR_BIN"] = os.path.abspath(os.environ.get("WEIR_BIN", ROOT / "target/release/weir"))
    sys.exit(main(sys.argv[1:]))
