"""A Weir with an app at its front, jobs and realtime, and an OTLP collector that decodes with OpenTelemetry's own messages."""

import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import os
import queue
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

# Longest wait for anything.
DEADLINE_SECONDS = 30
APP_KEY, APP_SECRET = "e2e-key", "correct-horse-battery"


class Server(http.server.ThreadingHTTPServer):
    """An HTTP server on a free port."""

    def __init__(self, handle):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.do_POST()

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, reply, headers = handle(self, body)
                self.send_response(status)
                for name, value in {"Content-Length": str(len(reply)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    # Weir has not waited for a slow answer.
                    self.wfile.write(reply)

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        self.address = "%s:%d" % self.server_address
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class Collector(Server):
    """Keeps the spans that it receives; answers `status` after `delay` seconds."""

    def __init__(self):
        self.requests, self.status, self.delay = [], 200, 0
        super().__init__(self.receive)

    def receive(self, request, body):
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

        if self.delay:
            time.sleep(self.delay)
        if self.status != 200:
            return self.status, b"", {}
        message = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
        # Whatever is not known was encoded wrongly.
        assert message.SerializeToString(deterministic=True), "no spans"
        self.requests.append((request.path, request.headers, message))
        reply = trace_service_pb2.ExportTraceServiceResponse().SerializeToString()
        return 200, reply, {"Content-Type": "application/x-protobuf"}

    def spans(self):
        """All spans, by their names."""
        found = {}
        for _, _, message in self.requests:
            for resource in message.resource_spans:
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found.setdefault(span.name, []).append(span)
        return found

    def until(self, *names):
        """Waits for a span of each of these names; returns the first one of each."""
        eventually(lambda: all(name in self.spans() for name in names), f"the spans {names}, not {list(self.spans())}")
        return [self.spans()[name][0] for name in names]


def attributes(span):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def eventually(probe, what):
    end = time.monotonic() + DEADLINE_SECONDS
    while not (found := probe()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {DEADLINE_SECONDS} s for: {what}")
        time.sleep(0.02)
    return found


class Faktory:
    """One connection, without a library: it sends what it is told to."""

    def __init__(self, address, wid=None):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS)
        self.file = self.socket.makefile("rb")
        self.read()
        hello = {"v": 2, **({"wid": wid, "hostname": "e2e", "pid": 1, "labels": []} if wid else {})}
        self.run("HELLO", hello)

    def run(self, verb, argument):
        text = argument if isinstance(argument, str) else json.dumps(argument)
        self.socket.sendall(f"{verb} {text}\r\n".encode())
        return self.read()

    def read(self):
        line = self.file.readline().decode().rstrip("\r\n")
        if line.startswith("-"):
            raise AssertionError(line)
        if not line.startswith("$"):
            return line[1:]
        length = int(line[1:])
        return None if length < 0 else json.loads(self.file.read(length + 2)[:length])

    def close(self):
        self.file.close()
        self.socket.close()


class ShopApp(Server):
    """The app: each request pushes a job and publishes an event, in the trace of the request, as instrumentation does."""

    def __init__(self):
        self.addresses, self.seen = None, []
        super().__init__(self.serve)

    def serve(self, request, _):
        parent = request.headers.get("traceparent")
        self.seen.append(dict(request.headers))
        if request.path.split("?")[0] != "/order" or not parent:
            return 200, b"fine", {}
        # The span of the app, which it would export itself.
        own = f"{parent[:36]}{secrets.token_hex(8)}-01"
        client = Faktory(self.addresses["jobs"])
        job = {"jid": "order-00001", "jobtype": "Order", "args": [7], "custom": {"traceparent": own}}
        client.run("PUSH", job)
        client.close()
        publish(self.addresses["front"], "orders", {"traceparent": own})
        return 200, own.encode(), {}


def signed_query(path, body):
    """The query of a request to the HTTP API, signed as Pusher's libraries do."""
    fields = {
        "auth_key": APP_KEY,
        "auth_timestamp": str(int(time.time())),
        "auth_version": "1.0",
        "body_md5": hashlib.md5(body.encode()).hexdigest(),
    }
    query = "&".join(f"{name}={fields[name]}" for name in sorted(fields))
    text = f"POST\n{path}\n{query}"
    return f"{query}&auth_signature={hmac.new(APP_SECRET.encode(), text.encode(), hashlib.sha256).hexdigest()}"


def publish(address, channel, headers):
    """An event over the HTTP API, with more headers."""
    host, port = address.split(":")
    body = json.dumps({"name": "placed", "channels": [channel], "data": json.dumps({"order": 7})})
    query = signed_query("/apps/1/events", body)
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_SECONDS)
    connection.request("POST", f"/apps/1/events?{query}", body, {"Content-Type": "application/json", **headers})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, (answer.status, text)


@contextlib.contextmanager
def weir(settings, environment=None):
    """A running Weir with these settings; gives its addresses and its settings file."""
    with tempfile.TemporaryDirectory(prefix="weir-e2e-") as folder:
        secret = Path(folder) / "secret"
        secret.write_text(APP_SECRET)
        secret.chmod(0o600)
        config = Path(folder) / "weir.toml"
        config.write_text(
            f'data_dir = "{folder}/data"\n[console]\nlisten = "127.0.0.1:0"\n[jobs]\nlisten = "127.0.0.1:0"\n'
            f'[[realtime.apps]]\nid = "1"\nkey = "{APP_KEY}"\nsecret = {{ file = "{secret}" }}\n{settings}'
        )
        process = subprocess.Popen(
            [os.environ["WEIR_BIN"], "up", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        ready, seen = queue.Queue(), []

        def read():
            for line in process.stdout:
                seen.append(line)
                if found := re.search(r"\bweir ready (.*)", line):
                    ready.put(dict(re.findall(r"(\w+)=(\S+)", found.group(1))))
            ready.put(None)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        addresses = ready.get(timeout=DEADLINE_SECONDS)
        try:
            if addresses is None:
                raise AssertionError("".join(seen))
            yield {**addresses, "config": str(config), "folder": folder, "log": seen}
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=DEADLINE_SECONDS)
            finally:
                process.kill()
                process.wait()
                reader.join()
                process.stdout.close()


def get(address, path, headers=None):
    """Status, headers and body."""
    host, port = address.split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE_SECONDS)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def metric(address, name):
    """The value of a metric, with its labels as Prometheus shows them."""
    text = get(address, "/metrics")[2].decode()
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " ")]
    return values[0] if values else None
