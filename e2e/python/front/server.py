"""A Weir with one app at its front."""

import http.client
import json
import os
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Longest wait for anything.
DEADLINE_SECONDS = 30


class Weir:
    """Runs Weir with an app that is started by `command`; to be closed."""

    def __init__(self, command, workers=3, more=""):
        self._folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.program = os.environ["WEIR_BIN"]
        self.config = Path(self._folder.name) / "weir.toml"
        self.config.write_text(
            f'data_dir = "{self._folder.name}/data"\n[console]\nlisten = "127.0.0.1:0"\n'
            '[jobs]\nlisten = "127.0.0.1:0"\nstore = "memory"\n[front]\nlisten = "127.0.0.1:0"\n'
            f'[[front.apps]]\nname = "app"\nworkers = {workers}\nfolder = "{HERE}"\n'
            f"command = {json.dumps(command)}\n{more}"
        )
        self._process = subprocess.Popen(
            [self.program, "up", "--config", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._ready, self._seen = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.host, self.port = self._ready.get(timeout=DEADLINE_SECONDS).split(":")
            self.until(lambda: len(self.pids()) == workers)
        except Exception:
            print("".join(self._seen))
            self.close()
            raise

    def _read(self):
        for line in self._process.stdout:
            self._seen.append(line)
            del self._seen[:-100]
            if found := re.search(r"\bweir ready .*\bfront=(\S+)", line):
                self._ready.put(found.group(1))

    def get(self, path="/", connection=None):
        """Status and body."""
        own = connection or http.client.HTTPConnection(self.host, int(self.port), timeout=DEADLINE_SECONDS)
        try:
            own.request("GET", path)
            answer = own.getresponse()
            return answer.status, answer.read().decode()
        finally:
            if connection is None:
                own.close()

    def post(self, path, body, chunked=False):
        own = http.client.HTTPConnection(self.host, int(self.port), timeout=DEADLINE_SECONDS)
        try:
            own.request("POST", path, body=iter([body]) if chunked else body, encode_chunked=chunked)
            answer = own.getresponse()
            return answer.status, answer.read()
        finally:
            own.close()

    def pids(self):
        """The processes that answer some requests."""
        answers = [self.get("/pid") for _ in range(9)]
        return {int(body) for status, body in answers if status == 200}

    def command(self, *arguments):
        command = [self.program, "workers", *arguments, "--config", str(self.config)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def listed(self):
        return json.loads(self.command("list", "--json"))[0]

    def until(self, is_so):
        end = time.monotonic() + DEADLINE_SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError("it never was so")
            time.sleep(0.02)

    def close(self):
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=DEADLINE_SECONDS)
        finally:
            self._process.kill()
            self._process.stdout.close()
            self._folder.cleanup()
