"""HTTP/2 clients of others: curl, and nghttp2's h2load."""

import subprocess
import tempfile
import unittest
from pathlib import Path

from commands import GUNICORN
from server import DEADLINE_SECONDS
from test_servers import start


def said(command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS).stdout


class Http2(unittest.TestCase):
    def test_bodies_over_tls_in_the_version_that_is_agreed_on(self):
        weir = start(self, GUNICORN, "socket", tls=True)
        where = f"https://{weir.host}:{weir.port}/echo"
        with tempfile.TemporaryDirectory() as folder:
            sent, got = Path(folder) / "sent", Path(folder) / "got"
            sent.write_bytes(b"0123456789" * 500_000)
            for wanted, version in [("--http2", "2"), ("--http1.1", "1.1")]:
                curl = ["curl", "--silent", "--show-error", "--fail", wanted, "--cacert", weir.certificate]
                command = [*curl, "--data-binary", f"@{sent}", "--output", str(got), "--write-out", "%{http_version}"]
                self.assertEqual(said([*command, where]), version)
                self.assertEqual(got.read_bytes(), sent.read_bytes())

    def test_streams_of_one_connection_reach_all_workers(self):
        weir = start(self, GUNICORN, "socket", tls=True)
        where = f"https://{weir.host}:{weir.port}/pid"
        curl = ["curl", "--silent", "--fail", "--http2", "--cacert", weir.certificate, "--parallel"]
        with tempfile.TemporaryDirectory() as folder:
            answers = [Path(folder) / str(index) for index in range(12)]
            said([*curl, *[word for answer in answers for word in ("--output", str(answer), where)]])
            self.assertEqual({int(answer.read_text()) for answer in answers}, weir.pids())

    def test_many_streams_by_prior_knowledge(self):
        weir = start(self, GUNICORN, "socket")
        where = f"http://{weir.host}:{weir.port}/pid"
        report = said(["h2load", "--requests=1000", "--clients=2", "--max-concurrent-streams=100", where])
        self.assertIn("1000 succeeded, 0 failed, 0 errored", report)
        self.assertIn("status codes: 1000 2xx", report)


if __name__ == "__main__":
    unittest.main()
