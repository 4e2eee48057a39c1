"""A Weir with one app at its front."""

import http.client
import json
import os
import queue
import re
import signal
import ssl
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import websocket

from certificate import certify

HERE = Path(__file__).resolve().parent
# Longest wait for anything.
DEADLINE_SECONDS = 30


class Started:
    """A Weir that runs with a settings file, with `workers` workers of its only app; to be closed."""

    certificate = None

    def __init__(self, config, workers, environment):
        self.program = os.environ["WEIR_BIN"]
        self.config = config
        self._process = subprocess.Popen(
            [self.program, "up", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
        )
        self._ready, self._seen = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.host, self.port = self._ready.get(timeout=DEADLINE_SECONDS).split(":")
            self.until(lambda: len(self.serving()) == workers)
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

    def connection(self):
        where = {"host": self.host, "port": int(self.port), "timeout": DEADLINE_SECONDS}
        if not self.certificate:
            return http.client.HTTPConnection(**where)
        return http.client.HTTPSConnection(**where, context=ssl.create_default_context(cafile=self.certificate))

    def socket(self, path):
        scheme = "wss" if self.certificate else "ws"
        trust = {"cert_reqs": ssl.CERT_REQUIRED, "ca_certs": self.certificate}
        url = f"{scheme}://{self.host}:{self.port}{path}"
        return websocket.create_connection(url, timeout=DEADLINE_SECONDS, sslopt=trust if self.certificate else None)

    def get(self, path="/", connection=None):
        """Status and body."""
        own = connection or self.connection()
        try:
            own.request("GET", path)
            answer = own.getresponse()
            return answer.status, answer.read().decode()
        finally:
            if connection is None:
                own.close()

    def post(self, path, body, chunked=False):
        own = self.connection()
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

    def serving(self):
        """The processes that Weir has started and that get requests."""
        return {worker["pid"] for worker in self.listed()["workers"] if worker["state"] == "serving"}

    def command(self, *arguments):
        return self.run("workers", *arguments)

    def run(self, *arguments):
        command = [self.program, *arguments, "--config", str(self.config)]
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


class Weir(Started):
    """Runs Weir with an app that is started by `command`."""

    def __init__(self, command, workers=3, more="", tls=False, front=""):
        self._folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.certificate = certify(Path(self._folder.name)) if tls else None
        front += '[front.tls]\ncert = "cert.pem"\nkey = "key.pem"\n' if tls else ""
        config = Path(self._folder.name) / "weir.toml"
        config.write_text(
            f'data_dir = "{self._folder.name}/data"\n[console]\nlisten = "127.0.0.1:0"\n'
            '[jobs]\nlisten = "127.0.0.1:0"\nstore = "memory"\n[front]\nlisten = "127.0.0.1:0"\n'
            f'{front}[[realtime.apps]]\nid = "1"\nkey = "demo-key"\nsecret = {{ env = "WEIR_E2E_SECRET" }}\n'
            f'[[front.apps]]\nname = "app"\nworkers = {workers}\nfolder = "{HERE}"\n'
            f"command = {json.dumps(command)}\n{more}"
        )
        super().__init__(config, workers, {"WEIR_E2E_SECRET": "correct-horse-battery"})
        # Some servers answer through processes that they start themselves.
        self.until(lambda: len(self.pids()) == workers)

    def close(self):
        super().close()
        self._folder.cleanup()
