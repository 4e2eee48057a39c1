"""The errors of this package."""

from __future__ import annotations

import re


class WeirError(Exception):
    """Base of all errors of this package."""


class ConnectionLost(WeirError):
    """The server could not be reached, or the connection was lost."""


class ServerError(WeirError):
    """The server rejected a command. The text says why."""


class QueueFull(ServerError):
    """The queue has reached its limit, and nothing was enqueued."""

    def __init__(self, text: str, retry_after: int) -> None:
        super().__init__(text)
        self.retry_after = retry_after
        """Seconds after which another attempt is worthwhile."""


def server_error(text: str) -> ServerError:
    """The error in a reply that begins with `-`."""
    if full := re.match(r"BUSY retry-after=(\d+) ", text):
        return QueueFull(text, int(full.group(1)))
    return ServerError(text.removeprefix("ERR "))
