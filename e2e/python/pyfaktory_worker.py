"""pyfaktory's consumer as a program: QUEUE WID."""

import sys

from pyfaktory import Client, Consumer
from pyfaktory.util.enums import State

from events import boom, echo, emit
from harness import URL


class ReportingClient(Client):
    """Says so when the server has made it quiet or told it to end."""

    def _set_state(self, new_state):
        changed = super()._set_state(new_state)
        if changed and new_state in (State.QUIET, State.TERMINATING):
            emit("quiet" if new_state == State.QUIET else "terminating")
        return changed


def main(queue, wid):
    with ReportingClient(faktory_url=URL, role="consumer", worker_id=wid, beat_period=1) as client:
        consumer = Consumer(client=client, queues=[queue], concurrency=2, grace_period=5)
        consumer.register("echo", echo)
        consumer.register("boom", boom)
        emit("ready")
        consumer.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
