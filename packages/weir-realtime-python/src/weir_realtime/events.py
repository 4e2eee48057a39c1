"""An event, and the functions that receive events."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from .position import Position

T = TypeVar("T")

Handler = Callable[[T], Awaitable[None] | None]
"""A function or coroutine function. The client awaits it before it calls the next handler."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a channel."""

    channel: str
    name: str
    data: Any
    """The decoded JSON, or the text if it is not JSON."""
    position: Position | None = None
    """Where the event is in the channel's history. Client events have no position."""
    user_id: str | None = None
    """Who sent a client event on a presence channel."""

    @classmethod
    def of(cls, message: dict[str, Any]) -> Event:
        """The event in a message of the server."""
        return cls(
            channel=message["channel"],
            name=message["event"],
            data=decoded(message.get("data")),
            position=Position.of(message),
            user_id=message.get("user_id"),
        )


def decoded(data: Any) -> Any:
    """The protocol sends most data as a string that contains JSON."""
    if not isinstance(data, str):
        return data
    try:
        return json.loads(data)
    except ValueError:
        return data
