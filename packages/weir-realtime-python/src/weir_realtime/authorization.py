"""Authorization of private and presence channels."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict


class _Signature(TypedDict):
    auth: str


class Authorization(_Signature, total=False):
    """What your server responds to `POST /pusher/auth`."""

    channel_data: str


Authorize = Callable[[str, str], "Authorization | Awaitable[Authorization]"]
"""Called with the id of the socket and the channel: asks your server for an authorization."""


def needs_authorization(channel: str) -> bool:
    """Whether the server expects a signature."""
    return channel.startswith(("private-", "presence-"))


def sign_with_secret(key: str, secret: str, *, user_id: str | None = None, user_info: Any = None) -> Authorize:
    """
    Authorizes with the app's secret, without a request. Only for programs that may know the secret, such as your own
    servers. Presence channels need a `user_id`.
    """

    def authorize(socket_id: str, channel: str) -> Authorization:
        parts = [socket_id, channel]
        if channel.startswith("presence-"):
            if user_id is None:
                raise ValueError(f"{channel} is a presence channel: pass user_id to sign_with_secret")
            member = {"user_id": user_id} if user_info is None else {"user_id": user_id, "user_info": user_info}
            parts.append(json.dumps(member))
        signature = hmac.new(secret.encode(), ":".join(parts).encode(), hashlib.sha256).hexdigest()
        authorization: Authorization = {"auth": f"{key}:{signature}"}
        if len(parts) == 3:
            authorization["channel_data"] = parts[2]
        return authorization

    return authorize
