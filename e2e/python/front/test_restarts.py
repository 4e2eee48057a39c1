"""Clients that keep their connections while Weir replaces itself: whatever they wait between a response and the next
request, none is lost."""

import http.client
import json
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import commands
from server import DEADLINE_SECONDS, HERE, Weir

WAITS = [0, 0.02, 0.45, 0.55, 3]
PIECES = "piece\n" * 10


class Restarts(unittest.TestCase):
    def setUp(self):
        command, more = commands.UVICORN.settings("socket")
        self.weir = Weir(command, more=more)
        self.addCleanup(self.weir.close)
        self.outcomes = []

    def test_python_s_client_loses_nothing_on_restarts_and_upgrades(self):
        for how in ("restart", "upgrade"):
            with self.subTest(how):
                self.outcomes = []
                clients = [
                    threading.Thread(target=self.keep, args=[path, wait])
                    for path in ("/pieces", "/echo")
                    for wait in WAITS
                ]
                for client in clients:
                    client.start()
                # Streamed responses are in their middle.
                time.sleep(0.5)
                self.weir.run(how)
                for client in clients:
                    client.join()
                self.assertEqual(set(self.outcomes), {200})
                self.assertGreaterEqual(len(self.outcomes), 2 * len(clients))

    def keep(self, path, wait):
        """Requests over one connection, until a while behind the replacement."""
        connection, end = self.weir.connection(), time.monotonic() + 2 + wait
        while True:
            try:
                connection.request("POST", path, body=b"hello")
                response = connection.getresponse()
                response.read()
                self.outcomes.append(response.status)
            except (OSError, http.client.HTTPException) as error:
                self.outcomes.append(repr(error))
            if time.monotonic() > end:
                break
            time.sleep(wait)
        connection.close()

    def test_node_s_agent_and_web_socket(self):
        told = self.keeper(["node", "keeper.js"])
        self.check(told["answers"])
        self.assertEqual(told["heard"], "STILL THERE")

    @unittest.skipUnless(shutil.which("go"), "go is not installed (Debian: golang-go)")
    def test_go_s_client(self):
        with tempfile.TemporaryDirectory(prefix="weir-e2e-go-") as folder:
            program = f"{folder}/keeper"
            subprocess.run(["go", "build", "-o", program, str(HERE / "keeper/main.go")], check=True)
            self.check(self.keeper([program])["answers"])

    def keeper(self, command):
        """What a client says that keeps its connections through a restart."""
        process = subprocess.Popen(
            [*command, f"{self.weir.host}:{self.weir.port}"], cwd=HERE, stdout=subprocess.PIPE, text=True
        )
        with process:
            self.assertEqual(process.stdout.readline(), "streaming\n")
            time.sleep(0.5)
            self.weir.run("restart")
            told, _ = process.communicate(timeout=DEADLINE_SECONDS)
        return json.loads(told)

    def check(self, answers):
        self.assertEqual(len(answers), 5)
        for _, *answer in answers:
            self.assertEqual(answer, [200, len(PIECES), 200, "hello"])


if __name__ == "__main__":
    unittest.main()
