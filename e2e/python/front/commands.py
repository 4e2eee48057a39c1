"""How Weir starts each application server, in each way that the server can be told where to listen."""

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
RUN_GUNICORN = [str(BIN / "gunicorn"), "--workers", "1", "--log-level", "warning"]
RUN_UVICORN = [str(BIN / "uvicorn"), "--log-level", "warning", "asgi:app"]
RUN_HYPERCORN = [str(BIN / "hypercorn"), "asgi:app", "--bind"]
RUN_GRANIAN = [str(BIN / "granian"), "--log-level", "warning", "--interface"]
RUN_PUMA = ["puma", "--quiet", "--workers", "0", "--threads", "5:5", "config.ru", "--bind"]
RUN_UNICORN = ["unicorn", "--no-default-middleware", "config.ru"]


@dataclass(frozen=True)
class Server:
    """Its commands by how they listen, and what more stands in the app's settings."""

    commands: dict
    more: str = ""
    # What other commands of it need instead.
    more_of: dict = field(default_factory=dict)

    def settings(self, name):
        return self.commands[name], self.more_of.get(name, self.more)


GUNICORN = Server(
    {
        "socket": [*RUN_GUNICORN, "--bind", "unix:{socket}", "wsgi:app"],
        "port, threads": [*RUN_GUNICORN, "--threads", "4", "--bind", "127.0.0.1:{port}", "wsgi:app"],
        "inherited": [*RUN_GUNICORN, "--bind", "fd://{fd}", "wsgi:app"],
    },
    more_of={"port, threads": "concurrency = 4\n"},
)
UVICORN = Server(
    {
        "socket": [*RUN_UVICORN, "--uds", "{socket}"],
        "port": [*RUN_UVICORN, "--port", "{port}"],
        "inherited": [*RUN_UVICORN, "--fd", "{fd}"],
    },
    "concurrency = 20\n",
)
HYPERCORN = Server(
    {
        "socket": [*RUN_HYPERCORN, "unix:{socket}"],
        "port": [*RUN_HYPERCORN, "127.0.0.1:{port}"],
        "inherited": [*RUN_HYPERCORN, "fd://{fd}"],
    },
    "concurrency = 20\n",
)
GRANIAN = Server(
    {
        "socket": [*RUN_GRANIAN, "asgi", "--uds", "{socket}", "asgi:app"],
        "port": [*RUN_GRANIAN, "asgi", "--port", "{port}", "asgi:app"],
        "socket, WSGI": [*RUN_GRANIAN, "wsgi", "--uds", "{socket}", "wsgi:app"],
    },
    "concurrency = 20\n",
    {"socket, WSGI": ""},
)
PUMA = Server(
    {
        "socket": [*RUN_PUMA, "unix://{socket}"],
        "port": [*RUN_PUMA, "tcp://127.0.0.1:{port}"],
        # Puma takes a descriptor by the name that it would have bound.
        "inherited": ["env", "PUMA_INHERIT_0={fd}:unix://@inherited", *RUN_PUMA, "unix://@inherited"],
    },
    "concurrency = 5\n",
)
UNICORN = Server(
    {
        "socket": [*RUN_UNICORN, "--listen", "{socket}"],
        "port": [*RUN_UNICORN, "--listen", "127.0.0.1:{port}"],
        "inherited": ["env", "UNICORN_FD={fd}", *RUN_UNICORN],
    }
)
NODE = Server(
    {
        "socket": ["node", "server.js", "{socket}"],
        "port": ["node", "server.js", "{port}"],
        "inherited": ["node", "server.js", "fd:{fd}"],
    },
    "concurrency = 20\n",
)


@functools.cache
def go():
    """Go's server, built once."""
    folder = tempfile.mkdtemp(prefix="weir-e2e-go-")
    atexit.register(shutil.rmtree, folder)
    program = f"{folder}/server"
    subprocess.run(["go", "build", "-o", program, str(HERE / "server.go")], check=True)
    commands = {
        "socket": [program, "unix:{socket}"],
        "port": [program, "port:{port}"],
        "inherited": [program, "fd:{fd}"],
    }
    return Server(commands, "concurrency = 20\n")
