"""PyPI `faktory` (faktory_worker_python) against a live server."""

import datetime
import json
import logging
import unittest

import faktory
from faktory.exceptions import FaktoryAuthenticationError

from harness import (
    PASSWORD_URL,
    URL,
    WorkerProcess,
    eventually,
    needs_password,
    unique,
    weir_promises_more,
)

logging.disable(logging.CRITICAL)


class FaktoryCase(unittest.TestCase):
    def setUp(self):
        self.queue = unique("fk")
        self.client = self.connect()

    def connect(self, url=URL):
        wid = unique("wid")
        client = faktory.Client(faktory=url, worker_id=wid)
        # The client's own connect() makes a producer; a worker id makes it a consumer as well.
        client.is_connected = client.faktory.connect(worker_id=wid)
        self.addCleanup(client.disconnect)
        return client

    def push(self, *args, jobtype="echo", **fields):
        jid = unique("jid")
        self.assertTrue(self.client.queue(jobtype, args=args, queue=self.queue, jid=jid, **fields))
        return jid

    def fetch(self):
        return self.client.faktory.fetch([self.queue])

    def command(self, verb, data=None):
        self.client.faktory.reply(verb, data)
        return next(self.client.faktory.get_message())

    def mutate(self, command, target, jid):
        operation = {"cmd": command, "target": target, "filter": {"jids": [jid]}}
        # The original refuses JSON with spaces.
        self.assertEqual(self.command("MUTATE", json.dumps(operation, separators=(",", ":"))), "OK")


class Jobs(FaktoryCase):
    def test_a_queued_task_is_fetched_and_acknowledged(self):
        jid = self.push(1, "two", {"three": [4]}, custom={"locale": "fr"}, reserve_for=60)
        job = self.fetch()
        self.assertEqual((job["jid"], job["jobtype"]), (jid, "echo"))
        self.assertEqual(job["args"], [1, "two", {"three": [4]}])
        self.assertEqual((job["reserve_for"], job["retry"]), (60, 5))
        self.assertEqual(self.command("ACK", {"jid": jid}), "OK")
        self.assertIsNone(self.fetch())

    def test_a_client_that_connects_for_each_push_works(self):
        client = faktory.Client(faktory=URL)
        self.assertTrue(client.queue("echo", args=("hello",), queue=self.queue))
        self.assertEqual(self.fetch()["args"], ["hello"])

    def test_unicode_comes_back_unchanged(self):
        text = "Ünïcödé 日本語 🦀 \"quoted\" \\ \n"
        self.push(text)
        self.assertEqual(self.fetch()["args"], [text])

    def test_a_payload_of_one_megabyte_comes_back_whole(self):
        text = "0123456789abcdef" * 65536
        self.push(text)
        self.assertEqual(self.fetch()["args"], [text])

    @weir_promises_more("integers above 2^53 come back rounded")
    def test_integers_above_two_to_the_53_come_back_exactly(self):
        numbers = [109326485893512345, 2**53 + 1, 2**64 - 1]
        self.push(*numbers)
        self.assertEqual(self.fetch()["args"], numbers)

    @weir_promises_more("unknown top-level fields are dropped")
    def test_the_priority_that_this_client_sends_is_kept(self):
        self.push("x", priority=7)
        self.assertEqual(self.fetch().get("priority"), 7)

    def test_a_scheduled_task_comes_when_it_is_due(self):
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        self.push("later", at=due.isoformat())
        self.assertEqual(eventually(self.fetch, "the scheduled job")["args"], ["later"])
        self.assertGreaterEqual(datetime.datetime.now(datetime.timezone.utc), due)

    def test_a_bulk_push_answers_with_an_empty_map(self):
        fields = {"jobtype": "echo", "queue": self.queue}
        jobs = [{"jid": unique("jid"), "args": [n], **fields} for n in range(50)]
        self.assertEqual(json.loads(self.command("PUSHB", json.dumps(jobs))), {})
        self.assertEqual([self.fetch()["args"] for _ in range(50)], [[n] for n in range(50)])

    def test_a_failed_task_is_dead_without_retries_and_gone_with_retry_zero(self):
        dead, gone = self.push("dead", retry=-1), self.push("gone", retry=0)
        for jid in (dead, gone):
            self.assertEqual(self.fetch()["jid"], jid)
            error = {"jid": jid, "errtype": "ValueError", "message": "no"}
            self.assertEqual(self.command("FAIL", error), "OK")
        self.mutate("requeue", "dead", gone)
        self.mutate("requeue", "retries", gone)
        self.mutate("requeue", "dead", dead)
        self.assertEqual(self.fetch()["failure"]["errtype"], "ValueError")
        self.assertIsNone(self.fetch())

    def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self):
        self.push("waits")
        self.assertEqual(self.command(f"QUEUE PAUSE {self.queue}"), "OK")
        self.assertIsNone(self.fetch())
        self.assertEqual(self.command(f"QUEUE RESUME {self.queue}"), "OK")
        self.assertEqual(self.fetch()["args"], ["waits"])

    def test_info_is_json_with_the_queue(self):
        self.push("x")
        info = json.loads(self.command("INFO"))
        self.assertEqual(info["faktory"]["queues"][self.queue], 1)

    @needs_password
    def test_the_password_hash_of_an_old_client_is_accepted(self):
        """This client sends no protocol version and hashes once."""
        client = self.connect(PASSWORD_URL)
        client.faktory.reply("INFO")
        self.assertIn("faktory", json.loads(next(client.faktory.get_message())))

    @needs_password
    def test_a_wrong_password_is_refused_by_name(self):
        with self.assertRaises(FaktoryAuthenticationError):
            self.connect(PASSWORD_URL.replace("@", "x@"))


class Workers(FaktoryCase):
    def setUp(self):
        super().setUp()
        self.worker_wid = unique("wid")
        self.worker = WorkerProcess("faktory_worker.py", self.queue, self.worker_wid)
        self.addCleanup(self.worker.kill)
        self.worker.expect("ready")

    def signal(self, state):
        answer = self.command("BEAT", {"wid": self.worker_wid, "current_state": state})
        self.assertEqual(json.loads(answer), {"state": state})

    def test_a_worker_runs_tasks_and_reports_failures(self):
        self.push("fine")
        self.assertEqual(self.worker.expect("ran")["args"], ["fine"])
        jid = self.push("bad", jobtype="boom", retry=-1)
        self.worker.expect("failing")
        self.signal("quiet")
        self.worker.expect("quiet")

        def requeued():
            self.mutate("requeue", "dead", jid)
            return json.loads(self.command("INFO"))["faktory"]["queues"].get(self.queue) == 1

        eventually(requeued, "the failed job in the dead set")
        self.assertEqual(self.fetch()["failure"]["message"], "boom: ünïcödé")

    def test_a_quiet_worker_takes_no_more_tasks_and_a_terminated_one_stops(self):
        self.signal("quiet")
        self.worker.expect("quiet")
        self.push("for another worker")
        self.assertEqual(self.fetch()["args"], ["for another worker"])
        self.signal("terminate")
        self.worker.expect("terminating")
        self.worker.wait_for_exit()


if __name__ == "__main__":
    unittest.main()
