"""How a worker process tells its test what it does: one JSON line per event, written whole."""

import json
import os


def emit(event, **fields):
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


def echo(*args):
    """A job that reports its arguments."""
    emit("ran", args=list(args))


def boom(*args):
    """A job that fails."""
    emit("failing", args=list(args))
    raise RuntimeError("boom: ünïcödé")
