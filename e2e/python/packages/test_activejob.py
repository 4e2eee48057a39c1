"""packages/activejob-weir with Debian's Rails: real jobs, real workers, a real Weir; kills and restarts of both."""

import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from weir import APP_SECRET, DEADLINE_SECONDS, Weir, eventually, unique

HERE = Path(__file__).resolve().parent
GEM = HERE.parents[2] / "packages" / "activejob-weir"
APP = str(HERE / "rails_project" / "app.rb")
RUBY = ["ruby", "-W0", "-I", str(GEM / "lib")]

# A worker that is stopped first waits for its FETCH.
SETTINGS = """password = { env = "WEIR_E2E_SECRET" }
[jobs.limits]
advanced.fetch_wait = "200ms"

[jobs.queues.full]
jobs_max = 1
"""


class RubyWorker:
    """`weir-worker` in a process of its own."""

    def __init__(self, environment, *arguments):
        command = [*RUBY, str(GEM / "exe" / "weir-worker"), "-r", APP, *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        line = self._lines.get(timeout=DEADLINE_SECONDS)
        if "is ready" not in line:
            raise AssertionError(f"the worker did not start: {line}")

    def _read(self):
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    @property
    def pid(self):
        return self._process.pid

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._reader.join(DEADLINE_SECONDS)
        self._process.stdout.close()

    def terminate(self):
        self._process.send_signal(signal.SIGTERM)

    def wait(self):
        """The exit code."""
        return self._process.wait(timeout=DEADLINE_SECONDS)


class ActiveJobTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = Weir(SETTINGS, last="jobs")
        cls.addClassCleanup(cls.weir.remove)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder, self.file = folder.name, f"{folder.name}/notes"
        url = self.weir.jobs_url.replace("//", f"//:{APP_SECRET}@")
        self.environment = {**os.environ, "FAKTORY_URL": url, "WEIR_E2E_NOTES": self.file}

    def ruby(self, code):
        """What the code prints, in the application."""
        command = [*RUBY, "-r", APP, "-e", code]
        outcome = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        self.assertEqual(outcome.returncode, 0, outcome.stderr)
        return outcome.stdout.strip()

    def worker(self, *arguments):
        worker = RubyWorker(self.environment, *arguments)
        self.addCleanup(worker.kill)
        return worker

    def notes(self):
        return Path(self.file).read_text().splitlines() if Path(self.file).exists() else []

    def noted(self, *expected):
        eventually(lambda: len(self.notes()) >= len(expected), f"the notes {expected}, not {self.notes()}")
        self.assertEqual(self.notes(), list(expected))

    def show(self, jid):
        """The job, as `weir jobs show` has it."""
        return json.loads(self.weir.command("jobs", "show", jid, "--json"))

    def test_jobs_run_later_and_fail(self):
        code = """
            time = Time.now
            at = Greet.set(wait: 1.hour).perform_later("later", at: time).provider_job_id
            failed = Mail.perform_later("ünïcödé").provider_job_id
            Greet.perform_later("Ada", at: time, tags: [:a, { b: 1 }])
            puts [at, failed].to_json
        """
        later, failed = json.loads(self.ruby(code))
        self.assertEqual((self.show(later)["state"], self.show(later)["jobtype"]), ("scheduled", "Greet"))
        self.weir.command("jobs", "push", "Greet", '[{"job_class":"Mail"}]', "--jid", "forged-1234", "--retry", "-1")
        self.worker("-q", "mailers,default")
        self.noted("greet Ada Time [:a, {:b=>1}]")
        eventually(lambda: self.show(failed)["state"] == "dead", "the failure")
        failure = self.show(failed)["failure"]
        self.assertEqual((failure["errtype"], failure["message"]), ("ArgumentError", "no address: ünïcödé"))
        self.assertIn("app.rb", failure["backtrace"][0])
        eventually(lambda: self.show("forged-1234")["state"] == "dead", "the end of a job that is not ActiveJob's")
        self.weir.command("jobs", "delete", later, "--yes")

    def test_retry_on_enqueues_again(self):
        self.ruby("Flaky.perform_later")
        self.worker("-c", "2")
        self.noted("attempt 1", "attempt 2", "attempt 3")

    def test_errors_reach_the_one_who_enqueues(self):
        code = """
            Crowded.perform_later
            begin
              Crowded.perform_later
            rescue Weir::QueueFull => error
              puts error.retry_after >= 1, error.message
            end
            begin
              Mistaken.perform_later
            rescue ArgumentError => error
              puts error.message
            end
            Thread.new do
              ENV["FAKTORY_URL"] = "tcp://127.0.0.1:1"
              Greet.perform_later("nobody", at: 1)
            rescue Weir::ConnectionLost => error
              puts error.message
            end.join
            begin
              Weir::Connection.new(Weir::Address.parse(ARGV.first))
            rescue Weir::Error => error
              puts error.message
            end
        """
        code = code.replace("ARGV.first", json.dumps(self.weir.jobs_url))
        lines = self.ruby(code).splitlines()
        self.assertEqual(lines[0], "true")
        self.assertIn("jobs.queues.full.jobs_max", lines[1])
        self.assertIn("unknown retries", lines[2])
        self.assertIn("can't connect to 127.0.0.1:1", lines[3])
        self.assertNotIn("may have been", lines[3])
        self.assertIn("requires a password", lines[4])

    def test_a_killed_worker_loses_no_job(self):
        gate = Path(self.folder, unique("gate"))
        self.ruby(f"Hold.perform_later({json.dumps(str(gate))})")
        first = self.worker("--id", "app1-0")
        self.noted(f"hold {first.pid}")
        first.kill()
        second = self.worker("--id", "app1-0")
        self.noted(f"hold {first.pid}", f"hold {second.pid}")
        self.weir.restart()
        gate.touch()
        # The outcome is reported to the Weir that was started anew.
        eventually(lambda: f"done {second.pid}" in self.notes(), "the end")
        second.terminate()
        self.assertEqual(second.wait(), 0)
        self.assertNotIn("Hold", self.weir.command("jobs", "working"))

    def test_a_worker_that_is_stopped_ends_its_job_or_leaves_it(self):
        gate = Path(self.folder, unique("gate"))
        self.ruby(f"Hold.perform_later({json.dumps(str(gate))})")
        hasty = self.worker("--id", "app1-1", "-t", "0.2")
        self.noted(f"hold {hasty.pid}")
        hasty.terminate()
        self.assertEqual(hasty.wait(), 1)
        patient = self.worker("--id", "app1-1")
        self.noted(f"hold {hasty.pid}", f"hold {patient.pid}")
        patient.terminate()
        gate.touch()
        self.assertEqual(patient.wait(), 0)
        self.noted(f"hold {hasty.pid}", f"hold {patient.pid}", f"done {patient.pid}")

    def test_the_gem_has_what_it_needs(self):
        copy = shutil.copytree(GEM, Path(self.folder, "copy"))
        command = ["gem", "build", "--output", f"{self.folder}/built.gem", "activejob-weir.gemspec"]
        outcome = subprocess.run(command, capture_output=True, text=True, cwd=copy)
        self.assertEqual(outcome.returncode, 0, outcome.stdout + outcome.stderr)
        command = ["gem", "specification", f"{self.folder}/built.gem", "files", "licenses"]
        files = subprocess.run([*command[:3], "files"], capture_output=True, text=True).stdout
        expected = [str(path.relative_to(GEM)) for path in GEM.rglob("*.rb")] + ["LICENSE", "README.md", "exe/weir-worker"]
        for path in expected:
            self.assertIn(path, files)
