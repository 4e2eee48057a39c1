"""The examples, as a newcomer runs them: their own weir.toml, on free ports."""

import os
import re
import shutil
import signal
import sys
import tempfile
import unittest
from pathlib import Path

from server import Started

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
# What `pip install` and an activated venv give.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
OTHER_PORTS = '\n[console]\nlisten = "127.0.0.1:0"\n[jobs]\nlisten = "127.0.0.1:0"\n'


class Examples(unittest.TestCase):
    def start(self, name):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        copy = Path(folder.name) / name
        shutil.copytree(EXAMPLES / name, copy)
        config = copy / "weir.toml"
        text, changed = re.subn(r'(\[front\]\nlisten = )"127\.0\.0\.1:8080"', r'\1"127.0.0.1:0"', config.read_text())
        self.assertEqual(changed, 1)
        config.write_text(text + OTHER_PORTS)
        weir = Started(config, 3, {"PATH": PATH})
        self.addCleanup(weir.close)
        return weir

    def answering(self, weir, text):
        """The process that answered, which is one of those that Weir runs or a child of one."""
        status, body = weir.get("/")
        self.assertEqual(status, 200)
        return int(re.search(text, body).group(1))

    def check(self, name, text):
        weir = self.start(name)
        self.assertEqual(len({self.answering(weir, text) for _ in range(9)}), 3)
        killed = min(weir.serving())
        os.kill(killed, signal.SIGKILL)
        weir.until(lambda: killed not in weir.serving() and len(weir.serving()) == 3)
        before = weir.serving()
        weir.command("restart", weir.listed()["name"])
        weir.until(lambda: weir.listed()["rolling"] == "finished")
        weir.until(lambda: not before & weir.serving() and len(weir.serving()) == 3)
        self.answering(weir, text)
        return weir

    def test_flask_under_gunicorn(self):
        self.check("flask-gunicorn", r"^Hello from process (\d+)\n$")

    def test_rack_under_puma(self):
        self.check("rack-puma", r"^Hello from process (\d+)\n$")

    def test_the_sample_app(self):
        weir = self.check("sample", r"<h1>Process (\d+) answered</h1>")
        self.assertEqual(weir.get("/none")[0], 404)


if __name__ == "__main__":
    unittest.main()
