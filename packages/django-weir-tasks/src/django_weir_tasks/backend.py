"""The backend: enqueues tasks as jobs, and reads their results from TRACK."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core import checks
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.module_loading import import_string

from .compat import (
    BaseTaskBackend,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from .connection import DEFAULT_URL, Address
from .errors import ConnectionLost, WeirError
from .pool import pool
from .progress import Progress
from .record import Record, moment

OPTIONS = ("URL", "RETRY", "RESERVE_FOR", "BACKTRACE", "TIMEOUT", "TRACK")
RETRY_NEVER = -1
"""A failed job is dead, and an operator can requeue it."""
DIGEST_CHARACTERS = 12

_paths: dict[str, str] = {}
"""The tasks of this process by the digest of their path. The id of a result ends with that."""


class WeirTaskResult(TaskResult):
    """A result whose return value may have been too long to be kept."""

    __slots__ = ("omitted_characters",)

    @property
    def return_value(self) -> Any:
        """Raises ValueError if the task has not succeeded, or the server did not keep what it returned."""
        if omitted := getattr(self, "omitted_characters", 0):
            raise ValueError(
                f"the return value has {omitted} characters of JSON, and a result keeps less than 1,000: "
                "let the task store it, for example in your database, and return its key"
            )
        return super().return_value

    def refresh(self) -> None:
        """Reads the result again."""
        super().refresh()
        self._refresh_omitted()

    async def arefresh(self) -> None:
        """See refresh()."""
        await super().arefresh()
        self._refresh_omitted()

    def _refresh_omitted(self) -> None:
        """A marker travels in the return value, the only attribute of its kind that Django copies."""
        value = self._return_value
        object.__setattr__(self, "omitted_characters", value.characters if isinstance(value, _Omitted) else 0)


class _Omitted:
    """In place of a return value that was too long."""

    def __init__(self, characters: int) -> None:
        self.characters = characters


class WeirBackend(BaseTaskBackend):
    """`TASKS["default"]["BACKEND"] = "django_weir_tasks.WeirBackend"`."""

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.queue_names = list(params.get("QUEUES", ["default"]))
        """In the order of the settings."""

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        """Reports options that can't be used."""
        messages = [*super().check(**kwargs)]
        unknown = sorted(set(self.options) - set(OPTIONS))
        if unknown:
            text = f"TASKS[{self.alias!r}]: unknown OPTIONS {', '.join(unknown)}; there are {', '.join(OPTIONS)}"
            messages.append(checks.Error(text, id="django_weir_tasks.E001"))
        try:
            self.address()
        except ValueError as error:
            messages.append(checks.Error(f"TASKS[{self.alias!r}]: OPTIONS URL: {error}", id="django_weir_tasks.E002"))
        return messages

    def address(self) -> Address:
        """Where the server is. Raises ValueError."""
        return Address.parse(self.options.get("URL") or os.environ.get("FAKTORY_URL") or DEFAULT_URL)

    @property
    def timeout(self) -> float:
        """Seconds to wait for the server."""
        return float(self.options.get("TIMEOUT", 10))

    @property
    def is_tracked(self) -> bool:
        """Whether the server keeps the results of tasks."""
        return bool(self.options.get("TRACK", True))

    def validate_task(self, task: Task) -> None:
        """Called for each task that is defined."""
        super().validate_task(task)
        _paths.setdefault(_digest(task.module_path), task.module_path)

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """
        Raises QueueFull, ServerError or ConnectionLost. After a ConnectionLost, the task may have been enqueued.
        """
        self.validate_task(task)
        result = WeirTaskResult(
            task=task,
            id=f"{get_random_string(32)}-{_digest(task.module_path)}",
            status=TaskResultStatus.READY,
            enqueued_at=timezone.now(),
            started_at=None,
            finished_at=None,
            last_attempted_at=None,
            args=list(args),
            kwargs=kwargs,
            backend=self.alias,
            errors=[],
            worker_ids=[],
        )
        self._command("PUSH", self._job(result))
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """Raises TaskResultDoesNotExist when the server does not know the task, or not any more."""
        track, record = self._track(result_id)
        path = record.task if record is not None else _paths.get(result_id.rpartition("-")[2])
        task = _import_task(path)
        if task is None:
            raise TaskResultDoesNotExist(f"{result_id}: import the module of its task first")
        record = record or Record(path or "")
        return self._result(result_id, task, _status(track["state"], record), record)

    def get_progress(self, result_id: str) -> Progress:
        """Raises TaskResultDoesNotExist."""
        track, record = self._track(result_id)
        return Progress(track.get("percent", 0), record.progress if record is not None else "")

    def stored_record(self, result_id: str) -> Record | None:
        """What the last worker of a task has stored. None if the server does not know it."""
        try:
            return self._track(result_id)[1]
        except (TaskResultDoesNotExist, WeirError):
            return None

    def _job(self, result: TaskResult) -> dict[str, Any]:
        task = result.task
        job = {
            "jid": result.id,
            "jobtype": task.module_path,
            "queue": queue_of(task.queue_name, task.priority),
            "args": [result.args, result.kwargs],
            "retry": int(self.options.get("RETRY", RETRY_NEVER)),
            "reserve_for": int(self.options.get("RESERVE_FOR", 1800)),
            "backtrace": int(self.options.get("BACKTRACE", 30)),
            "custom": {"django": {"queue_name": task.queue_name, "priority": task.priority}},
        }
        if self.is_tracked:
            job["custom"]["track"] = 1
        if task.run_after is not None:
            job["at"] = _in_utc(task.run_after).isoformat()
        return job

    def _track(self, result_id: str) -> tuple[dict[str, Any], Record | None]:
        if not result_id or any(letter.isspace() for letter in result_id):
            raise TaskResultDoesNotExist(result_id)
        track = json.loads(self._command(f"TRACK GET {result_id}"))
        if track["state"] == "unknown":
            raise TaskResultDoesNotExist(result_id)
        return track, Record.load(track.get("desc"))

    def _result(self, result_id: str, task: Task, status: TaskResultStatus, record: Record) -> TaskResult:
        result = WeirTaskResult(
            task=task,
            id=result_id,
            status=status,
            enqueued_at=moment(record.enqueued_at),
            started_at=moment(record.started_at),
            finished_at=moment(record.finished_at) if status in _FINISHED else None,
            last_attempted_at=moment(record.attempted_at),
            args=[],
            kwargs={},
            backend=self.alias,
            errors=task_errors(record),
            worker_ids=record.worker_ids,
        )
        omitted = record.omitted_characters
        object.__setattr__(result, "_return_value", _Omitted(omitted) if omitted else record.return_value)
        result._refresh_omitted()
        return result

    def _command(self, verb: str, payload: Any = None) -> Any:
        with pool.connection(self.address(), self.timeout) as connection:
            try:
                return connection.command(verb, payload)
            except ConnectionLost as error:
                if verb != "PUSH":
                    raise
                raise ConnectionLost(f"{error}; the task may have been enqueued") from error


def queue_of(queue_name: str, priority: int) -> str:
    """The queue of the server: tasks with a priority above or below 0 have queues of their own."""
    if priority == 0:
        return queue_name
    return f"{queue_name}-high" if priority > 0 else f"{queue_name}-low"


def queues_by_priority(queue_names: list[str]) -> list[str]:
    """The queues of the server in the order in which a worker serves them."""
    return [queue_of(name, priority) for priority in (1, 0, -1) for name in queue_names]


def task_of_job(job: dict[str, Any], backend: WeirBackend) -> Task:
    """The task that a job runs. Raises WeirError."""
    task = _import_task(job.get("jobtype"))
    if task is None:
        raise WeirError(f"{job.get('jobtype')} is no task of this project: deploy the worker and the project together")
    placed = (job.get("custom") or {}).get("django") or {}
    return task.using(
        priority=placed.get("priority", task.priority),
        queue_name=placed.get("queue_name", task.queue_name),
        backend=backend.alias,
    )


def task_errors(record: Record) -> list[TaskError]:
    """The error of the last attempt, if it failed."""
    if record.error is None:
        return []
    path, trace = record.error
    return [TaskError(exception_class_path=path, traceback=trace)]


_FINISHED = (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED)


def _status(state: str, record: Record) -> TaskResultStatus:
    match state:
        case "success":
            return TaskResultStatus.SUCCESSFUL
        case "working":
            return TaskResultStatus.RUNNING
        case "dead":
            return TaskResultStatus.FAILED
        case "failed" if record.is_final:
            return TaskResultStatus.FAILED
        case _:
            return TaskResultStatus.READY


def _import_task(path: str | None) -> Task | None:
    """Only what is a task: the name comes from the server."""
    try:
        found = import_string(path or "")
    except (ImportError, TypeError, ValueError):
        return None
    return found if isinstance(found, Task) else None


def _digest(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:DIGEST_CHARACTERS]


def _in_utc(time: datetime) -> datetime:
    return (time if timezone.is_aware(time) else timezone.make_aware(time)).astimezone(UTC)
