"""A backend for Django's tasks that enqueues to a Weir job server, and its worker."""

from .backend import WeirBackend
from .errors import ConnectionLost, QueueFull, ServerError, WeirError
from .progress import Progress, get_progress, set_progress
from .version import __version__

__all__ = [
    "ConnectionLost",
    "Progress",
    "QueueFull",
    "ServerError",
    "WeirBackend",
    "WeirError",
    "get_progress",
    "set_progress",
    "__version__",
]
