"""The worker: threads that run tasks, heartbeats, and an orderly end."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import close_old_connections, connections
from django.utils.crypto import get_random_string

from .backend import WeirBackend, queues_by_priority
from .connection import Connection
from .errors import ConnectionLost, ServerError, WeirError
from .running import RunningTask

BEAT_SECONDS = 15
"""The server gives a worker up after `jobs.heartbeat_timeout`, a minute by default."""
RETRY_SECONDS_MAX = 5
"""Between attempts to reach the server."""
REPORT_SECONDS_MAX = 300
"""How long the outcome of a task is kept while the server can't be reached."""

logger = logging.getLogger("django_weir_tasks")

T = TypeVar("T")


@dataclass(frozen=True)
class WorkerOptions:
    """What the command line says."""

    queue_names: list[str]
    concurrency: int
    stop_timeout: float
    worker_id: str = ""


class Worker:
    """One process that runs tasks of a backend."""

    def __init__(self, backend: WeirBackend, options: WorkerOptions) -> None:
        self.backend = backend
        self.id = options.worker_id or f"{socket.gethostname()}-{get_random_string(8)}"
        self._options = options
        self._queues = queues_by_priority(options.queue_names)
        self._stopping, self._quiet = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, name=f"task-{number}", daemon=True)
            for number in range(options.concurrency)
        ]

    def run(self, on_ready: Callable[[], None] = lambda: None) -> bool:
        """Runs tasks until `stop`. Returns whether all that had begun have ended. Raises WeirError or ValueError."""
        # A wrong address or password ends the worker at once; later, it waits for the server.
        beats = self._connect()
        for thread in self._threads:
            thread.start()
        on_ready()
        heart = self._beat_until(lambda: self._stopping.wait(BEAT_SECONDS), beats)
        deadline = time.monotonic() + self._options.stop_timeout
        heart = self._beat_until(lambda: self._join(min(deadline, time.monotonic() + BEAT_SECONDS), deadline), heart)
        has_ended = not any(thread.is_alive() for thread in self._threads)
        if not has_ended:
            logger.warning(
                "tasks did not end within %s s: the server gives them to another worker", self._options.stop_timeout
            )
        if heart is not None:
            heart.end()
        return has_ended

    def stop(self) -> None:
        """Begins no more tasks, and lets `run` return."""
        self._stopping.set()

    def _join(self, until: float, deadline: float) -> bool:
        """Waits for the threads. Returns whether to wait no longer."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return time.monotonic() >= deadline or not any(thread.is_alive() for thread in self._threads)

    def _beat_until(self, waits: Callable[[], bool], connection: Connection | None) -> Connection | None:
        """Sends heartbeats until `waits` returns true."""
        while not waits():
            try:
                connection = connection or self._connect()
                self._obey(connection.command("BEAT", {"wid": self.id, "rss_kb": _rss_kb()}))
            except WeirError as error:
                logger.warning("no heartbeat: %s", error)
                if connection is not None:
                    connection.close()
                connection = None
        return connection

    def _obey(self, reply: str | None) -> None:
        """An operator has asked for the worker's end, in the console or with `weir jobs`."""
        if reply and "terminate" in reply:
            self._stopping.set()
        elif reply and "quiet" in reply:
            self._quiet.set()

    def _connect(self) -> Connection:
        hello = {"hostname": socket.gethostname(), "wid": self.id, "pid": os.getpid(), "labels": ["python", "django"]}
        return Connection(self.backend.address(), max(30.0, self.backend.timeout), hello)

    # A thread that runs tasks.

    def _serve(self) -> None:
        link = Link(self._connect, self._stopping)
        try:
            while not self._stopping.is_set():
                if self._quiet.is_set():
                    self._stopping.wait(1)
                    continue
                job = link.fetch(self._queues)
                if job is not None:
                    self._run_job(job, link)
        finally:
            link.end()
            connections.close_all()

    def _run_job(self, job: dict[str, Any], link: Link) -> None:
        close_old_connections()
        try:
            RunningTask(job, self.backend, self.id, link).run()
        except Exception:
            logger.exception("job %s: its outcome could not be reported", job.get("jid"))
        finally:
            close_old_connections()


class Link:
    """A connection of one thread that is opened again when it is lost. Also the task's own threads may use it."""

    def __init__(self, connect: Callable[[], Connection], stopping: threading.Event) -> None:
        self._connect, self._stopping = connect, stopping
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def fetch(self, queues: list[str]) -> dict[str, Any] | None:
        """A job. None if there is none for some seconds, or the server can't be reached."""
        try:
            return self._with_connection(lambda connection: connection.fetch(queues))
        except WeirError as error:
            logger.warning("no job: %s", error)
            self._stopping.wait(RETRY_SECONDS_MAX)
            return None

    def report(self, commands: list[tuple[str, Any]]) -> None:
        """The outcome of a task: tries again while the server can't be reached. Raises WeirError in the end."""
        deadline, seconds = time.monotonic() + REPORT_SECONDS_MAX, 0.1
        while True:
            try:
                self._with_connection(lambda connection: connection.commands(commands))
                return
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
            time.sleep(seconds)
            seconds = min(RETRY_SECONDS_MAX, seconds * 2)

    def tell(self, verb: str, payload: Any) -> None:
        """What may be lost."""
        try:
            self._with_connection(lambda connection: connection.command(verb, payload))
        except WeirError as error:
            logger.warning("%s was not sent: %s", verb, error)

    def end(self) -> None:
        """Closes the connection in an orderly way."""
        with self._lock:
            if self._connection is not None:
                self._connection.end()

    def _with_connection(self, use: Callable[[Connection], T]) -> T:
        with self._lock:
            self._connection = self._connection or self._connect()
            try:
                return use(self._connection)
            except ServerError:
                raise
            except BaseException:
                self._connection.close()
                self._connection = None
                raise


def _rss_kb() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    except (OSError, ValueError, IndexError):
        return 0
