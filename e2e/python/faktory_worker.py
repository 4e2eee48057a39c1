"""The worker of the package `faktory` as a program: QUEUE WID."""

import sys

from faktory import Worker

from events import boom, echo, emit
from harness import URL


class ReportingWorker(Worker):
    """Says so when the server has made it quiet or told it to end."""

    send_heartbeat_every = 1

    def heartbeat(self):
        was_quiet = self.is_quiet
        super().heartbeat()
        if self.is_quiet and not was_quiet:
            emit("quiet")

    def disconnect(self, *args, **kwargs):
        emit("terminating")
        super().disconnect(*args, **kwargs)


def main(queue, wid):
    worker = ReportingWorker(
        faktory=URL, queues=[queue], worker_id=wid, concurrency=2, use_threads=True
    )
    worker.register("echo", echo)
    worker.register("boom", boom)
    worker.faktory.connect(worker_id=wid)
    emit("ready")
    worker.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
