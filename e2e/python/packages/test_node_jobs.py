"""examples/node-jobs with npm `faktory-worker`, against a Weir with the settings of the example."""

import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from weir import DEADLINE_SECONDS, Weir, eventually

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "node-jobs"


class Program:
    """A program of the example, whose lines are read."""

    def __init__(self, folder, name, url):
        environment = {**os.environ, "FAKTORY_URL": url}
        command = ["node", name]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment)
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def line(self):
        return self._lines.get(timeout=DEADLINE_SECONDS)

    def rest(self):
        """All further lines until it ends."""
        return list(iter(self.line, None))

    def close(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(DEADLINE_SECONDS)
        self.process.stdout.close()


class NodeJobsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = shutil.copytree(EXAMPLE, Path(folder.name, "example"))
        Path(self.folder, "node_modules").symlink_to(ROOT / "e2e/node/node_modules")
        self.weir = Weir(EXAMPLE.joinpath("weir.toml").read_text(), last="jobs")
        self.addCleanup(self.weir.remove)

    def start(self, name):
        program = Program(self.folder, name, self.weir.jobs_url)
        self.addCleanup(program.close)
        return program

    def test_jobs_are_run_followed_repeated_and_ended(self):
        worker = self.start("worker.mjs")
        self.assertEqual(worker.line(), "worker is ready")
        lines = self.start("enqueue.mjs").rest()
        self.assertEqual(lines[0], "push 2: NOTUNIQUE Job not unique")
        self.assertEqual(lines[-1].split()[0], "success")
        self.weir.command("jobs", "cron", "run", "cleanup")
        expected = {
            "failed: charge: order 7: card rejected",
            "album summer is complete",
            "mail to ada@example.com",
            "cleanup of what is older than 30 days",
        }
        self.assertEqual({worker.line() for _ in expected}, expected)
        (dead,) = json.loads(self.weir.command("jobs", "list", "dead", "--json"))
        self.assertEqual((dead["jobtype"], dead["failure"]["errtype"]), ("charge", "CARD_REJECTED"))
        (scheduled,) = json.loads(self.weir.command("jobs", "list", "scheduled", "--json"))
        self.assertEqual(scheduled["jobtype"], "cleanup")
        worker.process.terminate()
        self.assertEqual(worker.process.wait(DEADLINE_SECONDS), 0)

    def test_progress_is_seen_while_a_job_runs(self):
        follower = self.start("enqueue.mjs")
        waiting = [follower.line(), follower.line()]
        self.assertEqual(waiting, ["push 2: NOTUNIQUE Job not unique", "enqueued"])
        self.start("worker.mjs")
        seen = follower.rest()
        self.assertRegex(seen[0], r"^working( \d+ % cat\.png: (small|medium|large))?$")
        self.assertEqual(seen[-1].split()[0], "success")
        eventually(lambda: "mail" not in self.weir.command("jobs", "list", "mail"), "the mail")
