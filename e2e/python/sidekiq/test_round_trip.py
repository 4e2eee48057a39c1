"""Jobs from Ruby through Weir to Python and back: none lost, no byte changed, statistics that agree.

WEIR_SIDEKIQ_JOBS=100000 for the record.
"""

import json
import time
import unittest

from stack import SidekiqCase, eventually, needs_sidekiq, number

JOBS = number("WEIR_SIDEKIQ_JOBS", 500)
BATCH = 100


@needs_sidekiq
class RoundTrip(SidekiqCase):
    def test_jobs_go_from_ruby_to_python_and_back(self):
        node = self.weir()
        pushed = self.push_in_ruby()
        waiting = self.redis.call("LRANGE", "queue:to-python", 0, -1) if JOBS <= 10_000 else None
        began = time.monotonic()
        client = self.faktory(node, "round-trip")
        seen = self.work_in_python(client, pushed)
        there = time.monotonic()
        self.assertEqual(seen, set(pushed), "each job was delivered once")
        self.assertEqual(self.redis.number("LLEN", "queue:ruby"), JOBS)
        self.check_bytes(pushed, waiting)
        process = self.sidekiq("ruby", concurrency=10)
        eventually(lambda: self.redis.number("LLEN", "queue:ruby") == 0, "an empty queue", 900)
        eventually(lambda: len(self.ran()) >= JOBS, "all jobs to be done in Ruby", 900)
        process.signal(15)
        back = time.monotonic()
        done = self.ran()
        self.assertEqual(sorted(done), sorted(f"back-{jid}" for jid in pushed), "each once")
        self.check_arguments_in_ruby(pushed)
        self.check_statistics(node, client)
        print(f"{JOBS} jobs: Ruby to Python {there - began:.1f} s, Python to Ruby {back - there:.1f} s; 0 lost")

    def push_in_ruby(self):
        log = self.folder / "pushed.log"
        self.ruby("push.rb", "Echo", "to-python", JOBS, PUSHED_LOG=log)
        pushed = dict(line.split("\t", 1) for line in log.read_text().split("\n") if line)
        self.assertEqual(len(pushed), JOBS)
        return pushed

    def work_in_python(self, client, pushed):
        seen = set()
        while len(seen) < JOBS:
            client.run('BEAT {"wid":"round-trip"}')
            batch = client.run(f"FETCHB {BATCH} to-python")
            jobs = {json.loads(text)["jid"]: text for text in batch}
            jids = list(jobs)
            self.assertTrue(jids, f"{len(seen)} of {JOBS} arrived")
            for jid, text in jobs.items():
                self.assertNotIn(jid, seen, "it was delivered twice")
                self.assertIn(f'"args":{pushed[jid]}'.encode(), text)
                self.assertIn(b'"mine":{"a":1.5}', text)
            back = [
                f'{{"jid":"back-{jid}","jobtype":"Echo","queue":"ruby","args":{pushed[jid]}}}' for jid in jids
            ]
            self.assertEqual(client.run(f"PUSHB [{','.join(back)}]"), b"{}")
            self.assertEqual(client.run("ACKB " + json.dumps(jids)), b"{}")
            seen.update(jids)
        return seen

    def check_bytes(self, pushed, waiting):
        """What lies in Redis is what both sides wrote."""
        for payload in waiting or []:
            job = json.loads(payload)
            self.assertIn(f'"args":{pushed[job["jid"]]}'.encode(), payload)
        for start in range(0, JOBS, 1_000):
            for payload in self.redis.call("LRANGE", "queue:ruby", start, start + 999):
                jid = json.loads(payload)["jid"].removeprefix("back-")
                self.assertIn(f'"args":{pushed[jid]}'.encode(), payload)

    def check_arguments_in_ruby(self, pushed):
        for word, jid, _, _, _, *detail in self.lines():
            if word == "done":
                self.assertEqual(detail[0], pushed[jid.removeprefix("back-")])

    def check_statistics(self, node, client):
        info = json.loads(client.run("INFO"))["faktory"]
        self.assertEqual(info["total_processed"], JOBS)
        self.assertEqual(info["total_failures"], 0)
        status = node.status()["jobs"]
        self.assertEqual((status["processed_total"], status["failed_total"]), (JOBS, 0))
        eventually(lambda: self.redis.number("GET", "stat:processed") == 2 * JOBS, "both sides' statistics")
        self.assertEqual(self.redis.number("GET", "stat:failed"), 0)
        self.assertEqual(self.redis.call("KEYS", "weir:*:reserved"), [])


if __name__ == "__main__":
    unittest.main()
