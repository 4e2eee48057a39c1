"""Positions in the history of a channel, and which events are new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Position:
    """The position of an event in its channel. Offsets of different epochs can't be compared."""

    epoch: str
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Reads what `str(position)` has written."""
        epoch, separator, offset = text.partition(":")
        if not epoch or not separator or not offset.isdecimal():
            raise ValueError(f"{text!r} is no position: write EPOCH:OFFSET, as str(event.position) does")
        return cls(epoch, int(offset))

    @classmethod
    def of(cls, message: dict[str, Any]) -> Position | None:
        """The position in a message, if it has one: client events have none."""
        epoch, offset = message.get("epoch"), message.get("offset")
        return cls(epoch, offset) if isinstance(epoch, str) and isinstance(offset, int) else None


class Progress:
    """How far a client has received a channel. `position` is what it recovers from."""

    def __init__(self, position: Position | None = None) -> None:
        self.position = position
        self._delivered = position

    def joined(self, current: Position | None, has_recovered: bool) -> None:
        """After a subscription. Events that are recovered follow it, each with its own position."""
        if current is not None and not has_recovered:
            self.move_to(current)

    def move_to(self, position: Position) -> None:
        """Continues there, after a gap."""
        if self._delivered is not None and self._delivered.epoch != position.epoch:
            self._delivered = None
        self.position = position

    def takes(self, position: Position | None) -> bool:
        """Whether an event is new. One without a position always is."""
        if position is None:
            return True
        if self._delivered is not None and _is_at_most(position, self._delivered):
            return False
        # The last event of a cache channel may be older than the position: it must not turn that back.
        if self.position is None or not _is_at_most(position, self.position):
            self.position = position
        self._delivered = position
        return True


def _is_at_most(one: Position, other: Position) -> bool:
    return one.epoch == other.epoch and one.offset <= other.offset
