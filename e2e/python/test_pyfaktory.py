"""PyPI `pyfaktory` against a live server."""

import datetime
import json
import logging
import threading
import unittest

from pyfaktory import Client, Job, MutateOperation, Producer
from pyfaktory.models import JobFilter
from pyfaktory.util.exceptions import FaktroyWorkProtocolError

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
# The client's heartbeat thread dies with an error when it beats after disconnect(): its own affair.
threading.excepthook = lambda failure: None


class PyfaktoryCase(unittest.TestCase):
    def setUp(self):
        self.queue = unique("py")
        self.wid = unique("wid")
        self.client = self.connect(worker_id=self.wid)
        self.producer = Producer(client=self.client)

    def connect(self, worker_id, url=URL):
        client = Client(faktory_url=url, role="both", worker_id=worker_id, beat_period=5)
        client.connect()
        self.addCleanup(client.disconnect)
        return client

    def push(self, *args, **fields):
        fields.setdefault("jobtype", "echo")
        job = Job(args=list(args), queue=self.queue, **fields)
        self.assertTrue(self.producer.push(job))
        return job

    def fetch(self):
        return self.client._fetch([self.queue])

    def fail(self, msg=None, *, jid=None, message="boom"):
        if jid is None:
            return super().fail(msg)
        return self.client._fail(jid, "RuntimeError", message, ["line 1", "line 2"])

    def requeue(self, target, jid):
        only = JobFilter(jids=[jid], regexp=None, jobtype=None)
        self.client.mutate(MutateOperation(cmd="requeue", target=target, filter=only))

    def assert_nowhere(self, jid):
        for target in ("retries", "scheduled", "dead"):
            self.requeue(target, jid)
        self.assertIsNone(self.fetch())


class Jobs(PyfaktoryCase):
    def test_a_pushed_job_is_fetched_and_acknowledged_once(self):
        pushed = self.push(1, "two", [3], {"four": None}, custom={"locale": "de"})
        job = self.fetch()
        self.assertEqual(job["jid"], pushed.jid)
        self.assertEqual(job["args"], [1, "two", [3], {"four": None}])
        self.assertEqual(job["custom"], {"locale": "de"})
        for field in ("created_at", "enqueued_at"):
            datetime.datetime.fromisoformat(job[field][:19])
        self.assertTrue(self.client._ack(job["jid"]))
        self.assertIsNone(self.fetch())

    def test_jobs_of_a_queue_come_in_the_order_of_their_push(self):
        pushed = [self.push(number).jid for number in range(20)]
        fetched = [self.fetch()["jid"] for _ in range(20)]
        self.assertEqual(fetched, pushed)

    def test_queues_are_served_in_the_order_of_the_fetch(self):
        urgent = unique("py-urgent")
        self.push("normal")
        self.assertTrue(self.producer.push(Job(jobtype="echo", args=["urgent"], queue=urgent)))
        first = self.client._fetch([urgent, self.queue])
        second = self.client._fetch([urgent, self.queue])
        self.assertEqual([first["args"], second["args"]], [["urgent"], ["normal"]])

    def test_a_bulk_push_takes_the_good_jobs_and_names_the_bad_one(self):
        jobs = [Job(jobtype="echo", args=[n], queue=self.queue) for n in range(100)]
        jobs.append(Job(jid="short", jobtype="echo", args=[], queue=self.queue))
        errors = self.producer.push_bulk(jobs)
        self.assertEqual(list(errors), ["short"])
        self.assertIn("jid", errors["short"])
        self.assertEqual([self.fetch()["args"] for _ in range(100)], [[n] for n in range(100)])
        self.assertIsNone(self.fetch())

    def test_a_job_without_a_reasonable_jid_is_refused_and_the_connection_lives_on(self):
        with self.assertRaisesRegex(FaktroyWorkProtocolError, "jobs must have a reasonable jid"):
            self.push(jid="tiny")
        self.push("after")
        self.assertEqual(self.fetch()["args"], ["after"])

    def test_unicode_and_control_characters_come_back_unchanged(self):
        text = "Ünïcödé 日本語 🦀 \u0000 \t \"quoted\" \\ \u2028"
        self.push(text, {text: text})
        self.assertEqual(self.fetch()["args"], [text, {text: text}])

    def test_a_payload_of_one_megabyte_comes_back_whole(self):
        text = "0123456789abcdef" * 65536
        self.push(text)
        self.assertEqual(self.fetch()["args"], [text])

    @weir_promises_more("integers above 2^53 come back rounded")
    def test_integers_above_two_to_the_53_come_back_exactly(self):
        numbers = [109326485893512345, 2**53 + 1, -(2**53) - 1, 2**64 - 1, 2**63, 10**30]
        self.push(*numbers)
        self.assertEqual(self.fetch()["args"], numbers)

    @weir_promises_more("unknown top-level fields are dropped")
    def test_fields_that_the_protocol_does_not_know_are_kept(self):
        job = {"jid": unique("jid"), "jobtype": "echo", "args": [], "queue": self.queue}
        self.client._push({**job, "retry": 25, "tenant": {"id": 109326485893512345}})
        self.assertEqual(self.fetch().get("tenant"), {"id": 109326485893512345})

    @weir_promises_more("one push with a retry count changes the default of later pushes")
    def test_a_retry_count_of_one_job_does_not_become_the_default(self):
        job = {"jobtype": "echo", "args": [], "queue": self.queue}
        self.client._push({**job, "jid": unique("jid"), "retry": 3})
        self.client._push({**job, "jid": unique("jid")})
        # A server may leave the field out: absent means the default.
        retries = [self.fetch().get("retry", 25) for _ in range(2)]
        self.assertEqual(retries, [3, 25])


class Failures(PyfaktoryCase):
    def test_a_failed_job_waits_in_the_retry_set_and_comes_back_with_its_error(self):
        jid = self.push("x").jid
        self.fail(jid=self.fetch()["jid"], message="ünlucky")
        self.assertIsNone(self.fetch())
        self.requeue("retries", jid)
        failure = self.fetch()["failure"]
        self.assertEqual((failure["errtype"], failure["message"]), ("RuntimeError", "ünlucky"))
        self.assertEqual(failure["backtrace"], ["line 1", "line 2"])
        self.assertEqual(failure["retry_count"], 0)

    def test_a_job_without_retries_left_is_dead(self):
        jid = self.push("x", retry=1).jid
        self.fail(jid=self.fetch()["jid"])
        self.requeue("retries", jid)
        self.fail(jid=self.fetch()["jid"])
        self.requeue("retries", jid)
        self.assertIsNone(self.fetch())
        self.requeue("dead", jid)
        self.assertEqual(self.fetch()["jid"], jid)

    def test_retry_zero_is_thrown_away_on_failure(self):
        jid = self.push("x", retry=0).jid
        self.fail(jid=self.fetch()["jid"])
        self.assert_nowhere(jid)

    def test_retry_minus_one_goes_straight_to_the_dead_set(self):
        jid = self.push("x", retry=-1).jid
        self.fail(jid=self.fetch()["jid"])
        self.requeue("dead", jid)
        self.assertEqual(self.fetch()["jid"], jid)

    def test_failing_a_job_that_is_not_reserved_is_an_error(self):
        with self.assertRaisesRegex(FaktroyWorkProtocolError, "Job not found"):
            self.fail(jid=unique("jid"))

    def test_acknowledging_an_unknown_job_is_accepted(self):
        self.assertTrue(self.client._ack(unique("jid")))


class Sets(PyfaktoryCase):
    def later(self, seconds):
        now = datetime.datetime.now(datetime.timezone.utc)
        return (now + datetime.timedelta(seconds=seconds)).isoformat()

    def test_a_scheduled_job_comes_when_it_is_due_and_not_before(self):
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        self.push("later", at=due.isoformat())
        job = eventually(self.fetch, "the scheduled job")
        self.assertEqual(job["args"], ["later"])
        self.assertGreaterEqual(datetime.datetime.now(datetime.timezone.utc), due)

    def test_a_time_in_the_past_means_now(self):
        self.push("now", at=self.later(-3600))
        self.assertEqual(self.fetch()["args"], ["now"])

    def test_mutate_moves_and_discards_by_jid_type_and_pattern(self):
        jobtype = unique("type")
        jobs = [self.push(name, jobtype=jobtype, at=self.later(3600)) for name in "abc"]
        self.mutate("requeue", "scheduled", jids=[jobs[0].jid])
        self.assertEqual(self.fetch()["args"], ["a"])
        self.mutate("discard", "scheduled", regexp=f"*{jobs[1].jid}*")
        self.mutate("kill", "scheduled", jobtype=jobtype)
        self.mutate("requeue", "dead", jobtype=jobtype)
        self.assertEqual(self.fetch()["args"], ["c"])
        self.assert_nowhere(jobs[1].jid)

    def test_a_mutation_hits_all_jobs_that_are_due_at_the_same_moment(self):
        jobtype, at = unique("type"), self.later(3600)
        fields = {"jobtype": jobtype, "queue": self.queue, "at": at}
        jobs = [Job(args=[number], **fields) for number in range(50)]
        self.assertEqual(self.producer.push_bulk(jobs), {})
        self.mutate("kill", "scheduled", jobtype=jobtype)
        self.mutate("requeue", "dead", jobtype=jobtype)
        self.assertEqual(self.client.info()["faktory"]["queues"].get(self.queue), 50)

    def mutate(self, command, target, jids=None, regexp=None, jobtype=None):
        only = JobFilter(jids=jids, regexp=regexp, jobtype=jobtype)
        self.client.mutate(MutateOperation(cmd=command, target=target, filter=only))


class Server(PyfaktoryCase):
    def test_info_counts_what_is_there(self):
        before = self.client.info()
        for number in range(3):
            self.push(number)
        self.client._ack(self.fetch()["jid"])
        after = self.client.info()
        self.assertEqual(after["faktory"]["queues"][self.queue], 2)
        total = "total_processed"
        self.assertEqual(after["faktory"][total], before["faktory"][total] + 1)
        self.assertGreaterEqual(after["server"]["connections"], 1)
        for name in ("scheduled", "retries", "dead", "working"):
            self.assertIsInstance(after["faktory"]["sets"][name], int)

    def test_a_paused_queue_hands_out_nothing_until_it_is_resumed(self):
        self.push("waits")
        self.client.queue_pause([self.queue])
        self.assertIsNone(self.fetch())
        self.client.queue_unpause([self.queue])
        self.assertEqual(self.fetch()["args"], ["waits"])

    def test_a_removed_queue_has_lost_its_jobs(self):
        self.push("gone")
        self.client.queue_remove([self.queue])
        self.assertIsNone(self.fetch())
        self.assertNotIn(self.queue, self.client.info()["faktory"]["queues"])

    def test_a_fetch_wakes_up_when_work_arrives(self):
        worker = WorkerProcess("pyfaktory_worker.py", self.queue, unique("wid"))
        self.addCleanup(worker.kill)
        worker.expect("ready")
        self.push("woken")
        self.assertEqual(worker.expect("ran")["args"], ["woken"])

    @needs_password
    def test_the_right_password_is_let_in_and_a_wrong_one_is_not(self):
        client = self.connect(worker_id=unique("wid"), url=PASSWORD_URL)
        self.assertIn("faktory", client.info())
        wrong = PASSWORD_URL.replace("@", "x@")
        with self.assertRaisesRegex(FaktroyWorkProtocolError, "Invalid password"):
            Client(faktory_url=wrong, role="producer").connect()


class Workers(PyfaktoryCase):
    def setUp(self):
        super().setUp()
        self.worker_wid = unique("wid")
        self.worker = WorkerProcess("pyfaktory_worker.py", self.queue, self.worker_wid)
        self.addCleanup(self.worker.kill)
        self.worker.expect("ready")

    def signal(self, state):
        """Moves the worker to `state` as its own heartbeat would."""
        beat = json.dumps({"wid": self.worker_wid, "current_state": state})
        answer = self.client._send_and_receive(f"BEAT {beat}\r\n")
        self.assertIn(json.dumps({"state": state}, separators=(",", ":")), answer)

    def test_a_consumer_runs_jobs_and_reports_failures(self):
        self.push("fine")
        self.assertEqual(self.worker.expect("ran")["args"], ["fine"])
        failing = self.push("bad", jobtype="boom", retry=-1)
        self.worker.expect("failing")

        def requeued():
            self.requeue("dead", failing.jid)
            return self.client.info()["faktory"]["queues"].get(self.queue) == 1

        self.signal("quiet")
        self.worker.expect("quiet")
        eventually(requeued, "the failed job in the dead set")
        failure = self.fetch()["failure"]
        self.assertEqual((failure["errtype"], failure["message"]), ("RuntimeError", "boom: ünïcödé"))

    def test_a_quiet_worker_takes_no_more_jobs_and_a_terminated_one_stops(self):
        self.signal("quiet")
        self.worker.expect("quiet")
        self.push("for another worker")
        self.assertEqual(self.fetch()["args"], ["for another worker"])
        self.signal("terminate")
        self.worker.expect("terminating")
        self.worker.wait_for_exit()

    def test_an_unknown_worker_cannot_beat(self):
        answer = self.client._send_and_receive('BEAT {"wid":"nobody-knows-me"}\r\n')
        self.assertRegex(answer, "-ERR.*(?i:unknown worker)")


if __name__ == "__main__":
    unittest.main()
