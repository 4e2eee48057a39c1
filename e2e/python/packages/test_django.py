"""packages/django-weir-tasks: real tasks, real workers, a real Weir; kills and restarts of both."""

import asyncio
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import timedelta
from pathlib import Path
from unittest import mock

from weir import DEADLINE_SECONDS, Weir, eventually, unique

FOLDER = tempfile.TemporaryDirectory(prefix="weir-e2e-")
os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
os.environ["WEIR_E2E_NOTES"] = f"{FOLDER.name}/notes"

import django  # noqa: E402

django.setup()
logging.disable(logging.CRITICAL)

from django.core import checks  # noqa: E402
from django.utils import timezone  # noqa: E402
from django_weir_tasks import ConnectionLost, QueueFull, ServerError, WeirBackend, WeirError, get_progress, worker  # noqa: E402
from django_weir_tasks.compat import TaskResultDoesNotExist, TaskResultStatus, task_backends, task_enqueued  # noqa: E402
from django_weir_tasks.connection import Address, Connection  # noqa: E402
from project import tasks  # noqa: E402

# A worker that is stopped first waits for its FETCH.
SETTINGS = """
[jobs.limits]
advanced.fetch_wait = "200ms"

[jobs.queues.full]
jobs_max = 1
"""


class WorkerProcess:
    """`manage.py weir_worker` in a process of its own."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "django", "weir_worker", *arguments]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=Path(__file__).parent
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
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
        self._process.stdout.close()

    def stop(self):
        """SIGTERM; returns the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=DEADLINE_SECONDS)


class DjangoCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.weir = Weir('password = { env = "WEIR_E2E_SECRET" }\n' + SETTINGS, last="jobs")
        cls.addClassCleanup(cls.weir.remove)
        os.environ["FAKTORY_URL"] = cls.weir.jobs_url.replace("//", "//:correct-horse-battery@")

    def setUp(self):
        Path(os.environ["WEIR_E2E_NOTES"]).unlink(missing_ok=True)

    def worker(self, *arguments):
        process = WorkerProcess(*arguments)
        self.addCleanup(process.kill)
        return process

    def finished(self, result):
        """The result, once its task has ended."""

        def has_ended():
            result.refresh()
            return result.is_finished

        eventually(has_ended, f"the end of {result.task.name}")
        return result

    def noted(self, *expected):
        eventually(lambda: len(tasks.notes()) >= len(expected), f"the notes {expected}, not {tasks.notes()}")
        self.assertEqual(tasks.notes(), list(expected))

    def show(self, jid):
        """The job, as `weir jobs show` has it."""
        return json.loads(self.weir.command("jobs", "show", jid, "--json"))


class TaskTest(DjangoCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.process = WorkerProcess("--concurrency", "2")
        cls.addClassCleanup(cls.process.kill)

    def test_a_task_runs_and_returns_its_result(self):
        enqueued = []
        task_enqueued.connect(lambda task_result, **_: enqueued.append(task_result.id), weak=False, dispatch_uid="test")
        self.addCleanup(task_enqueued.disconnect, dispatch_uid="test")
        result = tasks.add.enqueue(2**53, 1, label="ünïcödé")
        self.assertEqual((result.status, enqueued), (TaskResultStatus.READY, [result.id]))
        with self.assertRaises(ValueError):
            print(result.return_value)
        self.finished(result)
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(result.return_value, {"sum": 2**53 + 1, "label": "ünïcödé"})
        self.assertLessEqual(result.enqueued_at, result.started_at)
        self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual((result.attempts, len(result.worker_ids), result.errors), (1, 1, []))
        again = tasks.add.get_result(result.id)
        self.assertEqual((again.status, again.return_value), (result.status, result.return_value))
        self.noted(f"add {2**53} 1 ünïcödé")

    def test_a_coroutine_is_enqueued_and_run(self):
        async def run():
            result = await tasks.send.aenqueue("text")
            while not result.is_finished:
                await asyncio.sleep(0.02)
                await result.arefresh()
            return (await tasks.send.aget_result(result.id)).return_value

        self.assertEqual(asyncio.run(run()), "TEXT")

    def test_a_task_runs_after_its_time(self):
        time = timezone.now() + timedelta(seconds=1)
        result = tasks.add.using(run_after=time).enqueue(1, 2)
        self.assertEqual(self.show(result.id)["state"], "scheduled")
        self.assertEqual(tasks.add.get_result(result.id).status, TaskResultStatus.READY)
        self.assertGreaterEqual(self.finished(result).started_at, time)

    def test_a_failed_task_has_its_error_and_is_dead(self):
        result = self.finished(tasks.fail.enqueue("no paper"))
        self.assertEqual(result.status, TaskResultStatus.FAILED)
        (error,) = result.errors
        self.assertIs(error.exception_class, tasks.Broken)
        self.assertIn("no paper", error.traceback)
        with self.assertRaisesRegex(ValueError, "failed"):
            print(result.return_value)
        shown = self.show(result.id)
        failure = shown["failure"]
        self.assertEqual((shown["state"], failure["errtype"], failure["message"]), ("dead", "Broken", "no paper"))
        self.assertRegex(failure["backtrace"][0], r"tasks\.py:\d+ in fail: raise Broken")

    def test_a_long_return_value_is_named_in_the_error(self):
        self.assertEqual(self.finished(tasks.large.enqueue(500)).return_value, "x" * 500)
        result = self.finished(tasks.large.enqueue(2000))
        self.assertEqual(result.status, TaskResultStatus.SUCCESSFUL)
        for found in (result, tasks.large.get_result(result.id)):
            with self.assertRaisesRegex(ValueError, "2013 characters"):
                print(found.return_value)

    def test_a_task_reports_its_progress(self):
        gate = f"{FOLDER.name}/{unique('gate')}"
        result = tasks.hold.enqueue(gate)
        eventually(lambda: get_progress(result.id).percent == 40, "40 percent")
        self.assertEqual(get_progress(result.id).description, "waits")
        result.refresh()
        self.assertEqual((result.status, result.finished_at), (TaskResultStatus.RUNNING, None))
        Path(gate).touch()
        self.assertEqual(self.finished(result).return_value, result.id)

    def test_what_is_no_task_is_not_called(self):
        for jobtype in ("project.tasks.no_task", "os.getcwd", "nowhere.task", "..", "project.tasks"):
            jid = unique("forged")
            self.weir.command("jobs", "push", jobtype, "[[],{}]", "--jid", jid, "--retry", "-1")
            eventually(lambda: self.show(jid)["state"] == "dead", f"the end of {jobtype}")
            self.assertIn("is no task of this project", self.show(jid)["failure"]["message"])
        self.assertEqual(tasks.notes(), [])

    def test_ids_that_nobody_knows_do_not_exist(self):
        for unknown in ("", "a b", "x\r\nFLUSH", "unknown", f"{'x' * 32}-{'0' * 12}"):
            with self.assertRaises(TaskResultDoesNotExist):
                tasks.add.get_result(unknown)

    def test_after_a_restart_of_weir_the_same_process_enqueues_and_the_same_worker_runs(self):
        self.finished(tasks.add.enqueue(1, 1))
        gate = f"{FOLDER.name}/{unique('gate')}"
        held = tasks.hold.enqueue(gate)
        eventually(tasks.notes, "the task")
        self.weir.restart()
        Path(gate).touch()
        self.assertEqual(self.finished(held).status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(self.finished(tasks.add.enqueue(2, 2)).return_value["sum"], 4)
        holds = [line for line in tasks.notes() if line.startswith("hold ")]
        self.assertLessEqual(len(holds), 2, "a job of the time of a restart may run twice")


class QueueTest(DjangoCase):
    def test_tasks_run_by_priority(self):
        for number, priority in enumerate((-5, 0, 7, -5, 0, 100)):
            tasks.add.using(priority=priority).enqueue(number, priority)
        tasks.send.using(priority=1).enqueue("urgent")
        self.worker("--concurrency", "1")
        self.noted("add 2 7 ", "add 5 100 ", "send urgent", "add 1 0 ", "add 4 0 ", "add 0 -5 ", "add 3 -5 ")

    def test_a_failed_task_is_tried_again(self):
        result = tasks.fail_once.enqueue()
        self.worker("--backend", "retrying")
        eventually(lambda: self.show(result.id)["state"] == "retries", "the failure")
        result.refresh()
        self.assertEqual((result.status, len(result.errors)), (TaskResultStatus.READY, 1))
        self.weir.command("jobs", "retry", result.id, "--yes")
        self.finished(result)
        self.assertEqual((result.status, result.return_value, result.attempts), (TaskResultStatus.SUCCESSFUL, 2, 2))
        self.assertEqual(result.errors, [])
        self.assertLess(result.started_at, result.last_attempted_at)
        self.noted("attempt 1", "attempt 2")

    def test_an_untracked_task_runs_and_has_no_result(self):
        result = tasks.forgotten.enqueue()
        self.worker("--backend", "untracked")
        self.noted("forgotten")
        with self.assertRaises(TaskResultDoesNotExist):
            result.refresh()

    def test_errors_of_the_server_are_those_of_enqueue(self):
        tasks.crowded.enqueue()
        with self.assertRaisesRegex(QueueFull, "jobs.queues.full.jobs_max") as caught:
            tasks.crowded.enqueue()
        self.assertGreaterEqual(caught.exception.retry_after, 1)
        with self.assertRaisesRegex(ServerError, "jobs.limits.line_bytes_max"):
            tasks.add.enqueue("x" * 20_000_000, "")
        with self.assertRaisesRegex(ConnectionLost, "127.0.0.1:1") as lost:
            tasks.unreachable.enqueue()
        self.assertNotIn("may have been", str(lost.exception), "it can't have been")

    def test_options_are_checked(self):
        self.assertEqual(checks.run_checks(), [])
        options = {"URL": "http://127.0.0.1", "RETRIES": 2}
        found = [message.msg for message in WeirBackend("wrong", {"OPTIONS": options}).check()]
        self.assertEqual(len(found), 2, found)
        self.assertIn("unknown OPTIONS RETRIES", found[0])
        self.assertIn("tcp://[:PASSWORD@]HOST[:PORT]", found[1])

    def test_a_wrong_password_is_named(self):
        url = self.weir.jobs_url
        for wrong, text in ((url, "requires a password"), (url.replace("//", "//:wrong@"), "password")):
            with self.assertRaisesRegex(WeirError, text):
                Connection(Address.parse(wrong), 5)


class WorkerTest(DjangoCase):
    def held(self):
        """A task that runs until its gate is opened."""
        gate = f"{FOLDER.name}/{unique('gate')}"
        return tasks.hold.enqueue(gate), Path(gate)

    def test_a_killed_worker_loses_no_task(self):
        result, gate = self.held()
        first = self.worker("--id", "web1-0")
        self.noted(f"hold {gate.name} {first.pid}")
        first.kill()
        second = self.worker("--id", "web1-0")
        self.noted(f"hold {gate.name} {first.pid}", f"hold {gate.name} {second.pid}")
        gate.touch()
        self.assertEqual(self.finished(result).status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual(tasks.notes()[2:], [f"done {gate.name} {second.pid}"])

    def test_a_worker_that_is_stopped_ends_its_task_and_begins_no_other(self):
        (first, gate), (second, _) = self.held(), self.held()
        process = self.worker("--concurrency", "1")
        eventually(tasks.notes, "the first task")
        stopped = threading.Thread(target=lambda: codes.append(process.stop()))
        codes = []
        stopped.start()
        self.addCleanup(stopped.join)
        self.assertTrue(stopped.is_alive())
        gate.touch()
        stopped.join()
        self.assertEqual(codes, [0])
        self.assertEqual(self.finished(first).status, TaskResultStatus.SUCCESSFUL)
        second.refresh()
        self.assertEqual((second.status, len(tasks.notes())), (TaskResultStatus.READY, 2))
        self.weir.command("jobs", "delete", second.id, "--yes")

    def test_what_does_not_end_in_time_runs_elsewhere(self):
        result, gate = self.held()
        process = self.worker("--stop-timeout", "0.2", "--id", "web1-1")
        eventually(tasks.notes, "the task")
        self.assertEqual(process.stop(), 1)
        gate.touch()
        self.worker("--id", "web1-1")
        self.assertEqual(self.finished(result).status, TaskResultStatus.SUCCESSFUL)
        self.assertEqual((result.attempts, result.errors), (1, []))

    def test_an_operator_ends_a_worker(self):
        options = worker.WorkerOptions(["default"], 2, 5, unique("worker"))
        with mock.patch.object(worker, "BEAT_SECONDS", 0.05):
            running, ready = worker.Worker(task_backends["default"], options), threading.Event()
            thread = threading.Thread(target=running.run, args=(ready.set,))
            thread.start()
            self.assertTrue(ready.wait(DEADLINE_SECONDS))
            eventually(lambda: running.id in self.weir.command("jobs", "workers"), "the worker")
            self.weir.command("jobs", "workers", "terminate", running.id)
            thread.join(DEADLINE_SECONDS)
            self.assertFalse(thread.is_alive())
