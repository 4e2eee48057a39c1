"""Tells Weir what this worker does (docs/front-sockets.md). No dependencies.

WSGI:    app = weir_busy.Middleware(app)
Others:  word = weir_busy.BusyWord.of_this_worker(); token = word.begin(); ...; word.end(token)
"""

import mmap
import os
import threading
import time

RECORD_BYTES = 32
IDLE = 0


class BusyWord:
    """The record of this worker in the memory that it shares with Weir."""

    @classmethod
    def of_this_worker(cls, environment=os.environ):
        """None: Weir has not started this worker, or not with mode = "sockets"."""
        if "WEIR_BUSY_FD" not in environment:
            return None
        return cls(int(environment["WEIR_BUSY_FD"]), int(environment["WEIR_BUSY_INDEX"]))

    def __init__(self, descriptor, index):
        self._words = memoryview(mmap.mmap(descriptor, (index + 1) * RECORD_BYTES)).cast("Q")
        self._state = index * RECORD_BYTES // 8
        self._lock = threading.Lock()
        # When each began; a dict keeps its order, so the first is the oldest.
        self._running = {}
        # What a process left behind that had this record before.
        self._words[self._state] = IDLE

    def begin(self):
        """A request begins. Answers what `end` is to be told."""
        token = object()
        with self._lock:
            now = time.monotonic_ns() // 1_000_000
            if not self._running:
                self._words[self._state] = now
            self._running[token] = now
        return token

    def end(self, token):
        """It has ended. Of a second time nothing comes."""
        with self._lock:
            if self._running.pop(token, None) is None:
                return
            self._words[self._state + 1] += 1
            self._words[self._state] = next(iter(self._running.values())) if self._running else IDLE


class Middleware:
    """A WSGI app around another that keeps the word."""

    def __init__(self, app, word=None):
        self._app = app
        self._word = word or BusyWord.of_this_worker()

    def __call__(self, environ, start_response):
        if self._word is None:
            return self._app(environ, start_response)
        token = self._word.begin()
        try:
            return _Body(self._app(environ, start_response), self._word, token)
        except BaseException:
            self._word.end(token)
            raise


class _Body:
    """An answer's body; a server closes it when all was sent, or the client has gone (PEP 3333)."""

    __slots__ = ("_body", "_word", "_token")

    def __init__(self, body, word, token):
        self._body, self._word, self._token = body, word, token

    def __iter__(self):
        return iter(self._body)

    def __len__(self):
        return len(self._body)

    def close(self):
        try:
            if hasattr(self._body, "close"):
                self._body.close()
        finally:
            self._word.end(self._token)
