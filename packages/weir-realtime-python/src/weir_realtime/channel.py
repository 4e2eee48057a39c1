"""A channel: its handlers, its members, and what its messages mean."""

from __future__ import annotations

from asyncio import Future
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .errors import SubscriptionRejected
from .events import Event, Handler, decoded
from .members import Members
from .position import Position, Progress

if TYPE_CHECKING:
    from .client import Client

Call = tuple[Handler[Any], Any]
"""A handler and its argument."""


class Channel:
    """A channel of a client. Register handlers before you subscribe, so that they receive all events."""

    def __init__(self, client: Client, name: str, position: Position | None) -> None:
        self.name = name
        self.members = Members()
        """Of a presence channel, while it is subscribed."""
        self._client = client
        self._progress = Progress(position)
        self._joined: Future[None] | None = None
        self._is_subscribed = False
        self._handlers: dict[str, list[Handler[Event]]] = defaultdict(list)
        self._any_handlers: list[Handler[Event]] = []
        self._gap_handlers: list[Handler[Position | None]] = []
        self._recovered_handlers: list[Handler[int]] = []
        self._error_handlers: list[Handler[Exception]] = []
        self._added_handlers: list[Handler[str]] = []
        self._removed_handlers: list[Handler[str]] = []

    @property
    def is_subscribed(self) -> bool:
        """Whether events arrive now: not while the connection is lost."""
        return self._is_subscribed

    def on(self, event: str, handler: Handler[Event]) -> None:
        """Calls `handler` with each event of this name."""
        self._handlers[event].append(handler)

    def on_any(self, handler: Handler[Event]) -> None:
        """Calls `handler` with each event, other than those of the protocol, such as `pusher:cache_miss`."""
        self._any_handlers.append(handler)

    def on_gap(self, handler: Handler[Position | None]) -> None:
        """Calls `handler` when events are lost, with the position from which events follow: load your state again."""
        self._gap_handlers.append(handler)

    def on_recovered(self, handler: Handler[int]) -> None:
        """Calls `handler` when missed events follow, with their number."""
        self._recovered_handlers.append(handler)

    def on_error(self, handler: Handler[Exception]) -> None:
        """
        Calls `handler` when the channel could not be subscribed again after a lost connection: with a
        SubscriptionRejected, or with the error of `authorize`. The client tries again, unless the server rejected the
        subscription with a status that is not temporary.
        """
        self._error_handlers.append(handler)

    def on_member_added(self, handler: Handler[str]) -> None:
        """Calls `handler` with the id of each user who joins a presence channel."""
        self._added_handlers.append(handler)

    def on_member_removed(self, handler: Handler[str]) -> None:
        """Calls `handler` with the id of each user who leaves a presence channel."""
        self._removed_handlers.append(handler)

    async def subscribe(self) -> None:
        """
        Subscribes and waits until the server has confirmed it. From then on, the client subscribes again after each
        lost connection. Raises SubscriptionRejected, or what `authorize` raises.
        """
        await self._client._subscribe(self)

    async def unsubscribe(self) -> None:
        """Ends the subscription. A later one starts without the present position."""
        await self._client._unsubscribe(self)

    async def trigger(self, event: str, data: Any) -> None:
        """
        Sends a client event to the other subscribers of a private or presence channel, if the app allows client
        events. It is lost if the connection is lost. Raises NotConnected.
        """
        if not event.startswith("client-"):
            raise ValueError(f"{event!r}: the name of a client event must begin with client-")
        await self._client._trigger(self, event, data)

    # What follows is for Client.

    def _begin(self, joined: Future[None]) -> None:
        self._joined = joined

    def _end(self) -> None:
        self._disconnected()
        self._progress = Progress()

    def _disconnected(self) -> None:
        self._is_subscribed = False
        self.members = Members()

    def _fail(self, error: Exception) -> bool:
        """Raises the error in the `subscribe` that waits. Returns whether there is one."""
        if self._joined is None or self._joined.done():
            return False
        self._joined.set_exception(error)
        self._joined.exception()  # If the caller waits no longer, it is no error that nobody reads it.
        return True

    def _error_calls(self, error: Exception) -> list[Call]:
        return [(handler, error) for handler in self._error_handlers]

    def _recover(self) -> dict[str, Any]:
        position = self._progress.position
        return {} if position is None else {"recover": {"epoch": position.epoch, "offset": position.offset}}

    def _receive(self, message: dict[str, Any]) -> Iterator[Call]:
        """The handlers to call for a message."""
        match message["event"]:
            case "pusher_internal:subscription_succeeded":
                yield from self._on_succeeded(message)
            case "pusher_internal:member_added":
                member = decoded(message["data"])
                self.members._add(member["user_id"], member.get("user_info"))
                yield from ((handler, member["user_id"]) for handler in self._added_handlers)
            case "pusher_internal:member_removed":
                user_id = decoded(message["data"])["user_id"]
                if self.members._remove(user_id):
                    yield from ((handler, user_id) for handler in self._removed_handlers)
            case "pusher_internal:subscription_count":
                self._on_count(decoded(message.get("data")))
            case "weir:gap":
                position = Position.of(decoded(message["data"]))
                if position is not None:
                    self._progress.move_to(position)
                yield from ((handler, position) for handler in self._gap_handlers)
            case name if name.startswith("pusher_internal:"):
                return
            case name:
                if self._progress.takes(Position.of(message)):
                    event = Event.of(message)
                    is_of_app = not name.startswith("pusher:")
                    handlers = [*self._handlers[name], *(self._any_handlers if is_of_app else [])]
                    yield from ((handler, event) for handler in handlers)

    def _on_succeeded(self, message: dict[str, Any]) -> Iterator[Call]:
        recovery = message.get("recovery") or {}
        outcome = recovery.get("outcome")
        current = Position.of(message)
        self._progress.joined(current, outcome == "recovered")
        self._is_subscribed = True
        if presence := (decoded(message.get("data")) or {}).get("presence"):
            self.members = Members(self._client._me(self), presence.get("hash"), presence.get("count"))
        if self._joined is not None and not self._joined.done():
            self._joined.set_result(None)
        if outcome == "recovered":
            yield from ((handler, recovery.get("events", 0)) for handler in self._recovered_handlers)
        if outcome == "gap":
            yield from ((handler, current) for handler in self._gap_handlers)

    def _on_count(self, data: Any) -> None:
        """On a large presence channel, the server sends the number of users instead of joins and leaves."""
        if (
            self.name.startswith("presence-")
            and isinstance(data, dict)
            and isinstance(data.get("subscription_count"), int)
        ):
            self.members.count = data["subscription_count"]


def rejection(channel: Channel, message: dict[str, Any]) -> SubscriptionRejected:
    """The error in a `pusher:subscription_error`."""
    data = decoded(message.get("data"))
    data = data if isinstance(data, dict) else {}
    return SubscriptionRejected(channel.name, int(data.get("status") or 400), str(data.get("error") or ""))
