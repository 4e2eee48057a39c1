"""Releases appear upstream, a webhook tells the mirror of each, and the mirror is killed (-9) in between:
`storm.py [HOOKS [KILLS]]`. During the first half the upstream hangs, so that each webhook that was taken has to be in
the inbox; then it answers, while more come. Afterwards nothing may be missing. A sender gives up no webhook that was
not taken, as those of rubygems.org and of Weir don't."""

import contextlib
import hashlib
import http.client
import json
import os
import queue
import sqlite3
import subprocess
import sys
import threading
import time

from index import DEADLINE_SECONDS
from mirrored import is_same, pair, state

SENDERS = 8
# Releases that appear upstream at once.
BATCH = 50
# How long the end may take: each webhook that is left is looked up.
PATIENCE_SECONDS = 300


class Sender(threading.Thread):
    """Sends webhooks of rubygems.org's shape, each until it is taken."""

    def __init__(self, mirror, work):
        super().__init__(daemon=True)
        self.address, self.work = mirror.addresses["gems"], work
        self.taken = self.again = 0
        self.start()

    def run(self):
        while (release := self.work.get()) is not None:
            while not self.send(*release):
                self.again += 1
                time.sleep(0.01)
            self.taken += 1

    def send(self, name, version):
        body = json.dumps({"name": name, "version": version, "platform": "ruby"})
        proof = hashlib.sha256(f"{name}{version}{os.environ['WEIR_E2E_HOOK_SECRET']}".encode()).hexdigest()
        connection = http.client.HTTPConnection(self.address, timeout=DEADLINE_SECONDS)
        try:
            headers = {"Authorization": proof, "Content-Type": "application/json"}
            connection.request("POST", "/api/v1/hooks/rubygems", body, headers)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def appear(upstream, releases):
    """They are in the upstream's index when this returns."""
    digest = lambda name, version: hashlib.sha256(f"{name} {version}".encode()).hexdigest()
    lines = (
        json.dumps({"name": name, "versions": [{"number": version, "sha256": digest(name, version)}]})
        for name, version in releases
    )
    command = [upstream.program, "gems", "import", "--config", str(upstream.config)]
    subprocess.run(command, input="\n".join(lines), check=True, capture_output=True, text=True)


def until(is_so):
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > end:
            raise AssertionError("it never was so")
        time.sleep(0.1)


def hooks_waiting(mirror):
    return json.loads(mirror.command("gems", "mirror", "status", "--json"))["hooks_waiting"]


def inbox(mirror):
    """The releases that webhooks in the inbox tell of."""
    path = mirror.folder / "data" / "gems" / "index.db"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as index:
        return index.execute("SELECT name, number FROM hooks").fetchall()


def send(upstream, mirror, releases, kills):
    """They appear upstream, webhooks tell of them, and the mirror is killed in between; how many were sent again."""
    work = queue.Queue()
    senders = [Sender(mirror, work) for _ in range(SENDERS)]
    kill_at = {len(releases) * number // (kills + 1) // BATCH * BATCH for number in range(1, kills + 1)}
    for start in range(0, len(releases), BATCH):
        batch = releases[start : start + BATCH]
        appear(upstream, batch)
        for release in batch:
            work.put(release)
        if start in kill_at:
            mirror.kill_service()
    for _ in senders:
        work.put(None)
    for sender in senders:
        sender.join(PATIENCE_SECONDS)
    assert sum(sender.taken for sender in senders) == len(releases)
    return sum(sender.again for sender in senders)


def storm(hooks, kills):
    names = [f"gem-{number}" for number in range(max(hooks // 10, 1))]
    releases = [(names[number % len(names)], f"1.{number // len(names)}") for number in range(hooks)]
    with pair() as (upstream, mirror):
        half = hooks // 2
        upstream.hang()
        try:
            again = send(upstream, mirror, releases[:half], kills - kills // 2)
            # An answer that was lost is no proof that the webhook was.
            waiting = hooks_waiting(mirror)
            assert half <= waiting <= half + again, f"{waiting} of {half} are in the inbox"
            # What was sent again may be there twice, in the place of what is lost.
            lost = set(releases[:half]) - set(inbox(mirror))
            assert not lost, f"{len(lost)} webhooks were taken and are not in the inbox: {lost}"
        finally:
            upstream.go_on()
        again += send(upstream, mirror, releases[half:], kills // 2)
        until(lambda: hooks_waiting(mirror) == 0)
        missing = [name for name in names if not is_same(upstream, mirror, name)]
        assert not missing, missing
        assert state(mirror)["pending"] == 0, state(mirror)
        verified = mirror.command("gems", "verify")
        assert verified.startswith(f"sound: {len(names)} gems, {hooks} releases"), verified
        print(f"{hooks} webhooks, {kills} kills, {again} sent again: nothing is missing")


if __name__ == "__main__":
    storm(*(int(argument) for argument in [*sys.argv[1:], "10000", "5"][:2]))
