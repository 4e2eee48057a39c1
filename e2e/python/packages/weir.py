"""A Weir of a test's own, with jobs and realtime, which the test kills and restarts; and bounded waiting."""

import os
import queue
import re
import subprocess
import tempfile
import threading
import time
import uuid
from pathlib import Path

# Longest wait for anything.
DEADLINE_SECONDS = 20
APP_ID, APP_KEY, APP_SECRET = "1", "e2e-key", "correct-horse-battery"


def unique(prefix):
    """A name that no other test uses."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def eventually(probe, what):
    """Polls until `probe()` is true, and returns what it returned."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not (found := probe()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {DEADLINE_SECONDS} s for: {what}")
        time.sleep(0.02)
    return found


class Weir:
    """Runs until `remove`. Its addresses stay the same when it is restarted."""

    def __init__(self, settings="", last="front"):
        """`settings` begin with those of the table `last`."""
        self._folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self._settings = settings
        parts = sorted(("console", "jobs", "front"), key=lambda part: part == last)
        self._listen = {part: "127.0.0.1:0" for part in parts}
        self.start()

    def start(self):
        self._config().write_text(self._toml())
        self._process = subprocess.Popen(
            [os.environ["WEIR_BIN"], "up", "--config", str(self._config())],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder.name,
            env=self._environment(),
        )
        ready, self._seen = queue.Queue(), []
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        try:
            self._listen.update(ready.get(timeout=DEADLINE_SECONDS))
        except queue.Empty:
            raise AssertionError(f"Weir did not become ready:\n{''.join(self._seen)}") from None

    def restart(self):
        """SIGTERM, and another one with the same data."""
        self._process.terminate()
        if code := self._process.wait(timeout=DEADLINE_SECONDS):
            raise AssertionError(f"Weir ended with {code}:\n{''.join(self._seen)}")
        self._close_output()
        self.start()

    def kill(self):
        """SIGKILL to the parent and to the service process."""
        service = self._service()
        self._process.kill()
        os.kill(service, 9)
        self._process.wait()

    def kill_service(self):
        """SIGKILL to the service process: the parent starts another one."""
        os.kill(self._service(), 9)

    def command(self, *arguments):
        """What `weir ARGUMENTS` prints."""
        command = [os.environ["WEIR_BIN"], *arguments, "--config", str(self._config())]
        outcome = subprocess.run(
            command, capture_output=True, text=True, cwd=self._folder.name, env=self._environment()
        )
        if outcome.returncode:
            raise AssertionError(f"{arguments}: {outcome.returncode}\n{outcome.stdout}{outcome.stderr}")
        return outcome.stdout

    def remove(self):
        if self._process.poll() is None:
            self.kill()
        self._close_output()
        self._folder.cleanup()

    @property
    def jobs_url(self):
        return f"tcp://{self._listen['jobs']}"

    @property
    def front(self):
        """Host and port of the front."""
        host, port = self._listen["front"].split(":")
        return host, int(port)

    def _environment(self):
        return {**os.environ, "WEIR_E2E_SECRET": APP_SECRET}

    def _service(self):
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return int(children.read_text().split()[0])

    def _config(self):
        return Path(self._folder.name, "weir.toml")

    def _toml(self):
        lines = ['data_dir = "data"']
        for part, address in self._listen.items():
            lines += [f"[{part}]", f'listen = "{address}"']
        return "\n".join(lines) + "\n" + self._settings

    def _close_output(self):
        self._reader.join(DEADLINE_SECONDS)
        self._process.stdout.close()

    def _read(self, process, ready):
        for line in process.stdout:
            self._seen.append(line)
            del self._seen[:-50]
            if found := re.search(r"\bweir ready (.*)", line):
                ready.put(dict(re.findall(r"(console|jobs|front)=(\S+)", found.group(1))))
