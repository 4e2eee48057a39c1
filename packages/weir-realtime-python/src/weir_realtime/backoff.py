"""How long to wait before the next attempt."""

import random
from collections.abc import Callable


class Backoff:
    """Waits that double, each a random part of that, so that clients of a restarted server don't reconnect together."""

    def __init__(
        self, first_seconds: float, seconds_max: float, randomly: Callable[[float, float], float] = random.uniform
    ) -> None:
        if not 0 < first_seconds <= seconds_max:
            raise ValueError("backoff_first must be above 0 and at most backoff_max")
        self._first, self._max, self._randomly = first_seconds, seconds_max, randomly
        self._ceiling = first_seconds

    def next_seconds(self) -> float:
        """The next wait."""
        ceiling = self._ceiling
        self._ceiling = min(self._max, ceiling * 2)
        return self._randomly(0, ceiling)

    def reset(self) -> None:
        """After a success."""
        self._ceiling = self._first
