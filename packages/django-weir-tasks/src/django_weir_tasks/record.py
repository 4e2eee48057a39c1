"""What a worker stores of a task in the description that TRACK keeps: times, workers, return value or error."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

DESCRIPTION_CHARACTERS_MAX = 1000
"""What the server keeps of a description."""
WORKER_IDS_MAX = 3
"""Only the last ids are kept; the number of attempts is exact."""
UNKNOWN_WORKER = "unknown"


@dataclass
class Record:
    """One task, as its worker knows it. Times are seconds since 1970."""

    task: str
    enqueued_at: float | None = None
    started_at: float | None = None
    attempted_at: float | None = None
    finished_at: float | None = None
    attempts: int = 0
    worker_ids: list[str] = field(default_factory=list)
    progress: str = ""
    return_value: Any = None
    omitted_characters: int = 0
    """Of a return value that is too long to be kept."""
    error: tuple[str, str] | None = None
    """The path of the exception's class, and its traceback."""
    is_final: bool = False
    """After an error: the task is not tried again."""

    def begin(self, worker_id: str, now: float) -> None:
        """Another attempt."""
        self.started_at = self.started_at or now
        self.attempted_at, self.finished_at, self.error, self.progress = now, None, None, ""
        self.attempts += 1
        self.worker_ids.append(worker_id)

    def dump(self) -> str:
        """JSON of at most DESCRIPTION_CHARACTERS_MAX characters."""
        core = {
            "task": self.task,
            "at": [self.enqueued_at, self.started_at, self.attempted_at, self.finished_at],
            "n": self.attempts,
            "by": self.worker_ids[-WORKER_IDS_MAX:],
        }
        room = DESCRIPTION_CHARACTERS_MAX - len(_json(core)) - 1
        return _json(core | self._outcome(room))

    def _outcome(self, room: int) -> dict[str, Any]:
        if self.error is not None:
            return _error_that_fits(self.error, self.is_final, room)
        if self.finished_at is None:
            return _text_that_fits("progress", self.progress, room)
        outcome = {"return": self.return_value}
        size = len(_json(outcome))
        return outcome if size <= room else {"omitted": size}

    @classmethod
    def load(cls, text: str | None) -> Record | None:
        """None, if a worker of another kind has written the text."""
        try:
            data = json.loads(text or "")
            enqueued, started, attempted, finished = data["at"]
            error = data.get("error")
            return cls(
                task=data["task"],
                enqueued_at=enqueued,
                started_at=started,
                attempted_at=attempted,
                finished_at=finished,
                attempts=data["n"],
                worker_ids=[UNKNOWN_WORKER] * (data["n"] - len(data["by"])) + data["by"],
                progress=data.get("progress", ""),
                return_value=data.get("return"),
                omitted_characters=data.get("omitted", 0),
                error=None if error is None else (error[0], error[1]),
                is_final=data.get("final", False),
            )
        except (ValueError, TypeError, KeyError, IndexError):
            return None


def moment(seconds: float | None) -> datetime | None:
    """A time of a record as Django has it."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _error_that_fits(error: tuple[str, str], is_final: bool, room: int) -> dict[str, Any]:
    """With the end of the traceback, which names the error."""
    path, trace = error
    while trace and len(_json({"error": [path, trace], "final": is_final})) > room:
        trace = trace[max(1, len(trace) // 8) :]
    return {"error": [path, trace], "final": is_final}


def _text_that_fits(name: str, text: str, room: int) -> dict[str, Any]:
    while text and len(_json({name: text})) > room:
        text = text[: -max(1, len(text) // 8)]
    return {name: text} if text else {}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
