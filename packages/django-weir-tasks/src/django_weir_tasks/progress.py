"""Progress of a task: reported by the task, read by anyone with the id of its result."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .compat import task_backends

if TYPE_CHECKING:
    from .backend import WeirBackend

report: ContextVar[Callable[[float, str], None] | None] = ContextVar("report", default=None)
"""How the running task reports its progress. A worker sets it."""


@dataclass(frozen=True)
class Progress:
    """How far a task is, in percent, and in its own words."""

    percent: float
    description: str


def set_progress(percent: float, description: str = "") -> None:
    """
    Reports the progress of the task that runs, from 0 to 100. Has no effect outside a worker of this package. If the
    connection is lost, the report is lost, and the task continues.
    """
    reporter = report.get()
    if reporter is not None:
        reporter(percent, description)


def get_progress(result_id: str, backend: str = "default") -> Progress:
    """The last progress that a task has reported. Raises TaskResultDoesNotExist."""
    weir: WeirBackend = task_backends[backend]
    return weir.get_progress(result_id)
