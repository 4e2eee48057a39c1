"""The errors of this package."""


class RealtimeError(Exception):
    """Base of all errors of this package."""


class ConnectionRejected(RealtimeError):
    """The server does not want this client to reconnect: close codes 4000 to 4099, such as 4001 for an unknown key."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"the server closed the connection for good: {code} {message}")
        self.code = code
        self.message = message


class SubscriptionRejected(RealtimeError):
    """The server rejected a subscription. `status` is that of HTTP: 401 for a wrong signature, 429 for a limit."""

    def __init__(self, channel: str, status: int, message: str) -> None:
        super().__init__(f"the subscription to {channel} was rejected: {status} {message}")
        self.channel = channel
        self.status = status
        self.message = message

    @property
    def is_temporary(self) -> bool:
        """Whether the same subscription may succeed later."""
        return self.status == 429 or self.status >= 500


class NotConnected(RealtimeError):
    """There is no connection now, so nothing was sent."""
