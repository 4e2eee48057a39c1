"""A Redis, Weirs that keep their jobs in it, and real Sidekiq processes on the same queues."""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from faktory_protocol import Faktory

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DEADLINE_SECONDS = 90


def weir_binary():
    if named := os.environ.get("WEIR_BIN"):
        return str(Path(shutil.which(named) or named).absolute())
    built = [ROOT / "target" / profile / "weir" for profile in ("release", "debug")]
    built = [path for path in built if path.exists()]
    return str(max(built, key=lambda path: path.stat().st_mtime)) if built else None


def has_sidekiq():
    found = shutil.which("ruby") and subprocess.run(["ruby", "-rsidekiq", "-e", ""], capture_output=True)
    return bool(found) and found.returncode == 0


needs_sidekiq = unittest.skipUnless(
    weir_binary() and shutil.which("redis-server") and shutil.which("sidekiq") and has_sidekiq(),
    "needs Weir, redis-server and sidekiq (Debian: redis-server, ruby-sidekiq)",
)


def number(name, default):
    """A count that a long run by hand raises."""
    return int(os.environ.get(name, default))


def eventually(probe, what, seconds=DEADLINE_SECONDS):
    """Polls until `probe()` is true, and returns what it returned."""
    deadline = time.monotonic() + seconds
    while True:
        if found := probe():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s for: {what}")
        time.sleep(0.05)


class Redis:
    """A redis-server without a port, and a connection to it."""

    def __init__(self, folder, *options):
        self.path = f"{folder}/redis.sock"
        command = ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", str(folder)]
        command += ["--save", "", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self._lines = None
        eventually(lambda: os.path.exists(self.path), "a Redis")

    def call(self, *words):
        if self._lines is None:
            self._socket = socket.socket(socket.AF_UNIX)
            eventually(lambda: self._socket.connect_ex(self.path) == 0, "a Redis that listens")
            self._lines = self._socket.makefile("rb")
        words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
        self._socket.sendall(b"".join(parts))
        return self._reply()

    def _reply(self):
        line = self._lines.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self._lines.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        if kind == b"-":
            raise AssertionError(f"Redis: {rest.decode()}")
        return int(rest) if kind == b":" else rest

    def number(self, *words):
        return int(self.call(*words) or 0)

    def stop(self):
        if self._lines is not None:
            self._lines.close()
            self._socket.close()
        self._process.terminate()
        self._process.wait()


class Weir:
    """A Weir with a folder of its own, so that it is the same node after a kill."""

    def __init__(self, redis, folder, settings="", binary=None):
        self.binary = binary or weir_binary()
        self.folder = Path(folder)
        self.folder.mkdir()
        self.config = self.folder / "weir.toml"
        shards = redis if isinstance(redis, list) else [redis]
        urls = ", ".join(f'{{ url = "unix://{shard.path}" }}' for shard in shards)
        self.config.write_text(
            f'data_dir = "{folder}/data"\n[console]\nlisten = "127.0.0.1:0"\n'
            f'[jobs]\nlisten = "127.0.0.1:0"\nstore = {{ redis = [{urls}] }}\n'
            f'[jobs.redis]\nlease = "6s"\n{settings}'
        )
        self._process = None
        self.start()

    def start(self):
        self.log = open(self.folder / "weir.log", "ab")
        self._process = subprocess.Popen(
            [self.binary, "up", "--config", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            cwd=self.folder,
            start_new_session=True,
        )
        line = self._process.stdout.readline()
        if not (ready := re.search(r"\bweir ready (.*)", line)):
            raise AssertionError(f"Weir is not ready: {line}{(self.folder / 'weir.log').read_text()[-3000:]}")
        addresses = dict(re.findall(r"(\w+)=(\S+)", ready.group(1)))
        host, port = addresses["jobs"].rsplit(":", 1)
        self.address, self.url = (host, int(port)), f"tcp://{addresses['jobs']}"
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()

    def kill(self):
        """kill -9 of the parent and of the service process, which has a process group of its own."""
        parent = self._process.pid
        children = []
        # It may have ended already.
        with contextlib.suppress(FileNotFoundError):
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for pid in [parent, *map(int, children)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(timeout=DEADLINE_SECONDS)
        self._process.stdout.close()
        self.log.close()

    def status(self):
        return json.loads(self.run("status", "--json"))

    def run(self, *words):
        """Runs a command on this node and returns what it has written."""
        command = [self.binary, *words, "--config", str(self.config)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stderr}")
        return done.stdout

    def stop(self):
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                pass
        self.kill()


class Program:
    """A process that is ended with its test; its standard output is a list of lines."""

    def __init__(self, command, **environment):
        self.lines = []
        self.process = subprocess.Popen(
            [str(word) for word in command],
            env={**os.environ, **{name: str(value) for name, value in environment.items()}},
            cwd=HERE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def output(self):
        """Waits for its end and returns what it has written."""
        status = self.process.wait(timeout=10 * DEADLINE_SECONDS)
        self._reader.join()
        text = "\n".join(self.lines)
        assert status == 0, f"{self.process.args}: {status}\n{text}"
        return text

    def signal(self, name):
        self.process.send_signal(name)
        self.process.wait(timeout=DEADLINE_SECONDS)

    def stop(self):
        # Its children, which have its connections, end with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(timeout=DEADLINE_SECONDS)
        self.process.stdout.close()


class SidekiqCase(unittest.TestCase):
    """A test with a Redis of its own."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="weir-sidekiq-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.redis = Redis(self.folder)
        self.addCleanup(self.redis.stop)
        self.log = self.folder / "jobs.log"

    def weir(self, name="weir", settings="", redis=None, binary=None):
        node = Weir(redis or self.redis, self.folder / name, settings, binary)
        self.addCleanup(node.stop)
        return node

    def faktory(self, node, wid=None):
        client = Faktory(node.address, wid)
        self.addCleanup(client.close)
        return client

    def program(self, command, **environment):
        environment = {"REDIS_PATH": self.redis.path, "JOBS_LOG": self.log, **environment}
        program = Program(command, **environment)
        self.addCleanup(program.stop)
        return program

    def ruby(self, script, *arguments, **environment):
        return self.program(["ruby", script, *arguments], **environment).output()

    def sidekiq(self, *queues, concurrency=5, **environment):
        command = ["sidekiq", "-r", "./jobs.rb", "-c", concurrency]
        for queue in queues:
            command += ["-q", queue]
        return self.program(command, **environment)

    def python(self, script, *arguments, **environment):
        return self.program([sys.executable, "-u", script, *arguments], **environment)

    def make_due(self, name):
        """Every job of the set is due now."""
        for job in self.redis.call("ZRANGE", name, 0, -1):
            self.redis.call("ZADD", name, "XX", 1, job)

    def ran(self, word="done"):
        """The jids that workers have logged with this word, in order."""
        return [line[1] for line in self.lines() if line[0] == word]

    def lines(self):
        """What workers have logged: word, jid, worker, node, time, and maybe more."""
        if not self.log.exists():
            return []
        whole = self.log.read_text().rpartition("\n")[0]
        return [line.split(" ", 5) for line in whole.split("\n") if line]
