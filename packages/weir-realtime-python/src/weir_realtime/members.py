"""The members of a presence channel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Members(Mapping[str, Any]):
    """
    The `user_info` of each member by its `user_id`. On a channel with more users than the app's
    `presence.list_max`, it has only this client; `count` is correct also there.
    """

    def __init__(self, me: str | None = None, infos: Mapping[str, Any] | None = None, count: int | None = None) -> None:
        self.me = me
        self._infos = dict(infos or {})
        self.count = len(self._infos) if count is None else count

    @property
    def is_complete(self) -> bool:
        """Whether all members are in the list."""
        return self.count == len(self._infos)

    def __getitem__(self, user_id: str) -> Any:
        return self._infos[user_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def __repr__(self) -> str:
        return f"Members({self.count}: {', '.join(self._infos)})"

    def _add(self, user_id: str, info: Any) -> None:
        is_new = user_id not in self._infos
        self._infos[user_id] = info
        self.count += is_new

    def _remove(self, user_id: str) -> bool:
        if user_id not in self._infos:
            return False
        del self._infos[user_id]
        self.count -= 1
        return True
