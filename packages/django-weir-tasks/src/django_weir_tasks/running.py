"""One task that a worker runs: its signals, its context, its outcome."""

from __future__ import annotations

import logging
import time
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import progress
from .backend import WeirBackend, WeirTaskResult, task_errors, task_of_job
from .compat import Task, TaskContext, TaskResult, TaskResultStatus, normalize_json, task_finished, task_started
from .record import Record, moment

if TYPE_CHECKING:
    from .worker import Link

logger = logging.getLogger("django_weir_tasks")


class RunningTask:
    """A job from its FETCH to its ACK or FAIL."""

    def __init__(self, job: dict[str, Any], backend: WeirBackend, worker_id: str, link: Link) -> None:
        self._job, self._backend, self._worker_id, self._link = job, backend, worker_id, link
        self._jid = str(job["jid"])
        self._is_tracked = bool((job.get("custom") or {}).get("track"))
        self._record = Record(str(job.get("jobtype")), enqueued_at=_seconds(job.get("created_at")))

    def run(self) -> None:
        """Runs the task and reports how it ended. Raises WeirError if that can't be reported."""
        self._restore_attempts()
        self._record.begin(self._worker_id, time.time())
        try:
            task = task_of_job(self._job, self._backend)
            args, kwargs = _arguments(self._job)
        except Exception as error:
            return self._report_failure(error, None)
        result = self._result(task, args, kwargs)
        self._tell_progress(0, "")
        task_started.send(type(self._backend), task_result=result)
        token = progress.report.set(self._tell_progress)
        try:
            value = normalize_json(self._call(task, result))
        except BaseException as error:
            self._report_failure(error, result)
        else:
            self._report_success(value, result)
        finally:
            progress.report.reset(token)

    def _call(self, task: Task, result: TaskResult) -> Any:
        if task.takes_context:
            return task.call(TaskContext(task_result=result), *result.args, **result.kwargs)
        return task.call(*result.args, **result.kwargs)

    def _restore_attempts(self) -> None:
        """Of earlier attempts, the server knows the number, and TRACK what their workers stored."""
        failure = self._job.get("failure")
        if not failure:
            return
        self._record.attempts = int(failure.get("retry_count", 0)) + 1
        stored = self._backend.stored_record(self._jid) if self._is_tracked else None
        if stored is not None:
            self._record.started_at = stored.started_at
            self._record.worker_ids = stored.worker_ids
        missing = self._record.attempts - len(self._record.worker_ids)
        self._record.worker_ids = ["unknown"] * missing + self._record.worker_ids

    def _result(self, task: Task, args: list[Any], kwargs: dict[str, Any]) -> TaskResult:
        record = self._record
        return WeirTaskResult(
            task=task,
            id=self._jid,
            status=TaskResultStatus.RUNNING,
            enqueued_at=moment(record.enqueued_at),
            started_at=moment(record.started_at),
            finished_at=None,
            last_attempted_at=moment(record.attempted_at),
            args=args,
            kwargs=kwargs,
            backend=self._backend.alias,
            errors=[],
            worker_ids=list(record.worker_ids),
        )

    def _tell_progress(self, percent: float, description: str) -> None:
        self._record.progress = description
        if self._is_tracked:
            self._link.tell("TRACK SET", {**self._track(), "percent": round(percent)})

    def _track(self) -> dict[str, Any]:
        return {"jid": self._jid, "desc": self._record.dump()}

    def _report_success(self, value: Any, result: TaskResult) -> None:
        self._record.finished_at, self._record.return_value = time.time(), value
        self._report("ACK", {"jid": self._jid})
        object.__setattr__(result, "_return_value", value)
        self._finish(result, TaskResultStatus.SUCCESSFUL)

    def _report_failure(self, error: BaseException, result: TaskResult | None) -> None:
        path = f"{type(error).__module__}.{type(error).__qualname__}"
        self._record.finished_at = time.time()
        self._record.error = (path, "".join(traceback.format_exception(error)))
        self._record.is_final = not self._is_retried()
        failure = {
            "jid": self._jid,
            "errtype": type(error).__qualname__,
            "message": str(error),
            "backtrace": frames(error),
        }
        self._report("FAIL", failure)
        logger.error("task %s failed: %s", self._job.get("jobtype"), error, exc_info=error)
        if result is not None:
            result.errors.extend(task_errors(self._record))
            self._finish(result, TaskResultStatus.FAILED if self._record.is_final else TaskResultStatus.READY)

    def _is_retried(self) -> bool:
        failure = self._job.get("failure") or {}
        attempts = int(failure.get("retry_count", -1)) + 1
        return attempts < int(self._job.get("retry", 25))

    def _report(self, verb: str, payload: dict[str, Any]) -> None:
        track = [("TRACK SET", self._track())] if self._is_tracked else []
        self._link.report([*track, (verb, payload)])

    def _finish(self, result: TaskResult, status: TaskResultStatus) -> None:
        object.__setattr__(result, "finished_at", moment(self._record.finished_at))
        object.__setattr__(result, "status", status)
        task_finished.send(type(self._backend), task_result=result)


def frames(error: BaseException) -> list[str]:
    """The stack of an error, innermost first: the server keeps the first lines."""
    summary = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} in {frame.name}: {frame.line}" for frame in reversed(summary)]


def _arguments(job: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    match job.get("args"):
        case [list(args), dict(kwargs)]:
            return args, kwargs
        case other:
            raise ValueError(f"the args of a task are [[..], {{..}}], not {str(other)[:100]}")


def _seconds(time_text: Any) -> float | None:
    try:
        return datetime.fromisoformat(time_text).astimezone(UTC).timestamp()
    except (TypeError, ValueError):
        return None
