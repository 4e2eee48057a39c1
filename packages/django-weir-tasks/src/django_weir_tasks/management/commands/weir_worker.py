"""`manage.py weir_worker`: runs tasks."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from django_weir_tasks.backend import WeirBackend
from django_weir_tasks.compat import task_backends
from django_weir_tasks.errors import WeirError
from django_weir_tasks.worker import Worker, WorkerOptions

CONCURRENCY_MAX = 1000


class Command(BaseCommand):
    help = "Runs the tasks that this project has enqueued to Weir, until SIGTERM or SIGINT."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--backend", default="default", help="Alias in TASKS [default: default]")
        parser.add_argument("--queues", help="Queue names with commas between them [default: QUEUES of the backend]")
        parser.add_argument(
            "--concurrency", type=int, default=4, help="Tasks at the same time, in threads [default: 4]"
        )
        parser.add_argument(
            "--stop-timeout",
            type=float,
            default=25,
            help="Seconds that running tasks have after SIGTERM. The server gives what is left to another worker [default: 25]",
        )
        parser.add_argument(
            "--id",
            default="",
            help="A name that only this process has, such as web1-0. If it is killed and started again under this "
            "name, its tasks run again at once, not after jobs.heartbeat_timeout",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        backend = task_backends[options["backend"]]
        if not isinstance(backend, WeirBackend):
            raise CommandError(f"TASKS[{options['backend']!r}] is no WeirBackend: choose another one with --backend")
        worker = Worker(backend, _options(backend, options))
        _stop_on_signals(worker)
        try:
            has_ended = worker.run(lambda: self.stdout.write(f"worker {worker.id} is ready"))
        except (WeirError, ValueError) as error:
            raise CommandError(str(error)) from error
        if not has_ended:
            # Threads that still run would keep the process alive.
            self.stdout.flush()
            os._exit(1)


def _options(backend: WeirBackend, options: dict[str, Any]) -> WorkerOptions:
    names = options["queues"].split(",") if options["queues"] else backend.queue_names
    if not names or not all(names):
        raise CommandError("the backend has no QUEUES: name them with --queues")
    unknown = sorted(set(names) - set(backend.queue_names)) if backend.queue_names else []
    if unknown:
        raise CommandError(f"--queues: {', '.join(unknown)} is not in QUEUES of TASKS[{backend.alias!r}]")
    if not 1 <= options["concurrency"] <= CONCURRENCY_MAX:
        raise CommandError(f"--concurrency must be from 1 to {CONCURRENCY_MAX}")
    return WorkerOptions(names, options["concurrency"], options["stop_timeout"], options["id"])


def _stop_on_signals(worker: Worker) -> None:
    """The first signal ends the worker in an orderly way, the second one immediately."""

    def stop(number: int, _frame: Any) -> None:
        worker.stop()
        signal.signal(number, signal.SIG_DFL)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
