"""Real clients of both sides on one Redis: jobs and their retries cross in both directions."""

import json
import unittest

from stack import SidekiqCase, eventually, needs_sidekiq


@needs_sidekiq
class Crossing(SidekiqCase):
    def setUp(self):
        super().setUp()
        self.node = self.weir()
        self.client = self.faktory(self.node)

    def push(self, jobtype, jid, queue, *args, **fields):
        job = {"jid": jid, "jobtype": jobtype, "queue": queue, "args": args, **fields}
        self.assertEqual(self.client.run("PUSH " + json.dumps(job)), b"OK")

    def packaged_worker(self, script, queue):
        """One of the packages from PyPI, on one queue, with events as JSON lines."""
        worker = self.python(f"../{script}", queue, f"wid-{queue}", WEIR_JOBS_URL=self.node.url)
        eventually(lambda: '"ready"' in "".join(worker.lines), "a worker that is ready")
        return worker

    def test_python_workers_run_what_ruby_pushes(self):
        for script in ("pyfaktory_worker.py", "faktory_worker.py"):
            with self.subTest(script):
                queue = script.removesuffix(".py")
                worker = self.packaged_worker(script, queue)
                self.ruby("push.rb", "echo", queue, 100)
                eventually(lambda: sum('"ran"' in line for line in worker.lines) == 100, "100 jobs")
                ran = [json.loads(line) for line in worker.lines if '"ran"' in line]
                self.assertEqual(sorted(event["args"][0] for event in ran), list(range(100)))
                big = {event["args"][2]["big"] - event["args"][0] for event in ran}
                self.assertEqual(big, {12_345_678_901_234_567_890})
                worker.stop()

    def test_a_sidekiq_process_runs_what_python_pushes(self):
        self.sidekiq("ruby")
        for number in range(100):
            self.push("Echo", f"python-{number:05}", "ruby", number)
        self.push("Echo", "python-later", "ruby", "later", at="2001-01-01T00:00:00Z")
        eventually(lambda: len(self.ran()) >= 101, "101 jobs in Ruby")
        self.assertEqual(len(set(self.ran())), 101)

    def test_a_job_that_failed_in_python_is_retried_in_ruby(self):
        worker = self.packaged_worker("pyfaktory_worker.py", "crossing")
        self.push("boom", "crossing-0001", "crossing", 1, retry=3)
        eventually(lambda: self.redis.number("ZCARD", "retry") == 1, "a retry")
        worker.stop()
        [text] = self.redis.call("ZRANGE", "retry", 0, -1)
        failed = json.loads(text)
        self.assertEqual((failed["class"], failed["retry_count"], failed["retry"]), ("boom", 0, 3))
        self.assertIn("boom", failed["error_message"])
        # Its class in Ruby has another name there.
        renamed = text.replace(b'"class": "boom"', b'"class": "FailsInRuby"')
        self.redis.call("ZREM", "retry", text)
        self.redis.call("ZADD", "retry", 1, renamed)
        process = self.sidekiq("crossing")
        eventually(lambda: self.ran("failing"), "the retry in Ruby")
        eventually(lambda: self.redis.number("ZCARD", "retry") == 1, "the next retry")
        process.signal(15)
        failed = json.loads(self.redis.call("ZRANGE", "retry", 0, -1)[0])
        self.assertEqual((failed["retry_count"], failed["error_class"]), (1, "ArgumentError"))

    def test_a_job_that_failed_in_ruby_is_retried_and_dies_in_python(self):
        process = self.sidekiq("crossing")
        self.ruby("push.rb", "FailsInRuby", "crossing", 1)
        eventually(lambda: self.redis.number("ZCARD", "retry") == 1, "a retry")
        process.signal(15)
        self.make_due("retry")
        job = eventually(lambda: self.client.run("FETCH crossing"), "the retry in Python")
        job = json.loads(job)
        self.assertEqual((job["jobtype"], job["failure"]["retry_count"]), ("FailsInRuby", 0))
        self.assertEqual(job["failure"]["errtype"], "ArgumentError")
        self.assertEqual(job["failure"]["message"], "not in Ruby: ü")
        failure = {"jid": job["jid"], "errtype": "ValueError", "message": "nor in Python", "backtrace": ["p:1"]}
        self.assertEqual(self.client.run("FAIL " + json.dumps(failure)), b"OK")
        self.make_due("retry")
        kill = "entry = Sidekiq::RetrySet.new.first; entry.kill if entry; dead = Sidekiq::DeadSet.new.first; \
                puts [dead.jid, dead['retry_count'], dead['error_class'], dead.error_backtrace].inspect"
        self.redis.call("ZADD", "retry", "XX", 9e9, self.redis.call("ZRANGE", "retry", 0, 0)[0])
        script = f"require './jobs'; require 'sidekiq/api'; {kill}"
        seen = self.program(["ruby", "-e", script]).output()
        self.assertEqual(seen.splitlines()[-1], f'["{job["jid"]}", 1, "ValueError", ["p:1"]]')


if __name__ == "__main__":
    unittest.main()
