"""What the Python suites share: the server's address, unique names, bounded waiting, worker processes."""

import functools
import json
import os
import queue
import subprocess
import sys
import threading
import time
import unittest
import uuid
from pathlib import Path

URL = os.environ["WEIR_JOBS_URL"]
PASSWORD_URL = os.environ.get("WEIR_JOBS_PASSWORD_URL")
# Set when the server is the original Faktory: the tests then prove that they test the protocol.
IS_ORIGINAL = os.environ.get("WEIR_E2E_ORIGINAL") == "1"

# Longest wait for anything; the original moves due jobs every 5 s and answers an empty FETCH after 2 s.
DEADLINE_SECONDS = 30

needs_password = unittest.skipUnless(PASSWORD_URL, "WEIR_JOBS_PASSWORD_URL is not set")


def unique(prefix):
    """A queue, job type or worker id that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def eventually(probe, what):
    """Polls until `probe()` is true, and returns what it returned."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {DEADLINE_SECONDS} s for: {what}")
        time.sleep(0.05)


def weir_promises_more(reason):
    """A test that must fail on the original, which `reason` describes: it shows that the test can tell."""

    def decorate(test):
        @functools.wraps(test)
        def expect_failure(self):
            try:
                test(self)
            except AssertionError:
                return
            self.fail(f"the original was expected to fail here: {reason}")

        return expect_failure if IS_ORIGINAL else test

    return decorate


class WorkerProcess:
    """A worker in a process of its own that prints one JSON object per event."""

    def __init__(self, script, *arguments):
        command = [sys.executable, str(Path(__file__).parent / script), *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._events = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._events.put(json.loads(line))

    def expect(self, event):
        """The next event, which must be of this kind."""
        try:
            found = self._events.get(timeout=DEADLINE_SECONDS)
        except queue.Empty:
            raise AssertionError(f"waited {DEADLINE_SECONDS} s for the event {event}") from None
        if found["event"] != event:
            raise AssertionError(f"expected the event {event}, got {found}")
        return found

    def wait_for_exit(self):
        self._process.wait(timeout=DEADLINE_SECONDS)

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._reader.join(timeout=DEADLINE_SECONDS)
        self._process.stdout.close()
