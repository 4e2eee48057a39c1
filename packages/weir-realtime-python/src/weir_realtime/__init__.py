"""An asyncio client for Pusher channels that recovers missed events from a Weir server."""

from .authorization import Authorization, Authorize, sign_with_secret
from .channel import Channel
from .client import Client
from .errors import ConnectionRejected, NotConnected, RealtimeError, SubscriptionRejected
from .events import Event
from .position import Position
from .version import __version__

__all__ = [
    "Authorization",
    "Authorize",
    "Channel",
    "Client",
    "ConnectionRejected",
    "Event",
    "NotConnected",
    "Position",
    "RealtimeError",
    "SubscriptionRejected",
    "sign_with_secret",
    "__version__",
]
