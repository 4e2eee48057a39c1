"""Sidekiq and Weir side by side on the same queues, killed again and again.

Weir's nodes and workers end by kill -9, Sidekiq by TERM: no job is lost, and no job begins twice while
the lease of its node is alive. By kill -9, Sidekiq loses what it had popped, and nothing else.
WEIR_SIDEKIQ_KILLS=50 for the record.
"""

import collections
import json
import random
import time
import unittest

from faktory_protocol import Faktory
from stack import SidekiqCase, eventually, needs_sidekiq, number

KILLS = number("WEIR_SIDEKIQ_KILLS", 3)
QUEUES = ("urgent", "normal")
JOBS_PER_ROUND = 100
SETTINGS = '[jobs.limits]\nheartbeat_timeout = "5s"\n[jobs.limits.advanced]\nreturns_max = 255\n'


@needs_sidekiq
class Kills(SidekiqCase):
    def setUp(self):
        super().setUp()
        self.pushed, self.killed = set(), []
        self.nodes, self.workers = [], []

    def start_nodes(self, count):
        for place in range(count):
            node = self.weir(f"node-{place}", SETTINGS)
            node.name, node.port_file = f"node-{place}", self.folder / f"port-{place}"
            node.port_file.write_text(str(node.address[1]))
            self.nodes.append(node)
            self.workers.append(None)
            self.start_worker(place)

    def start_worker(self, place):
        """Every start has a name of its own, which the log and the list of kills share."""
        node, wid = self.nodes[place], f"wid-{place}-{time.monotonic_ns()}"
        self.workers[place] = (wid, self.python("load_worker.py", node.name, node.address[0], node.port_file, wid, *QUEUES))

    def push_raw(self, count):
        """As Sidekiq's client does."""
        for _ in range(count):
            jid, queue = f"{random.getrandbits(96):024x}", random.choice(QUEUES)
            text = f'{{"class":"Slow","args":[0.01],"queue":"{queue}","jid":"{jid}","retry":true,"enqueued_at":{time.time()}}}'
            self.redis.call("SADD", "queues", queue)
            self.redis.call("LPUSH", f"queue:{queue}", text)
            self.pushed.add(jid)

    def push_through(self, node, count):
        client = Faktory(node.address)
        for _ in range(count):
            jid = f"{random.getrandbits(96):024x}"
            job = {"jid": jid, "jobtype": "Slow", "args": [0.01], "queue": random.choice(QUEUES)}
            self.assertEqual(client.run("PUSH " + json.dumps(job)), b"OK")
            self.pushed.add(jid)
        client.close()

    def kill_node(self, place):
        node = self.nodes[place]
        self.killed.append((node.name, time.monotonic()))
        node.kill()
        node.start()
        node.port_file.write_text(str(node.address[1]))

    def kill_worker(self, place):
        wid, worker = self.workers[place]
        self.killed.append((wid, time.monotonic()))
        worker.stop()
        self.start_worker(place)

    def test_kills_of_weir_and_ends_of_sidekiq_lose_nothing(self):
        self.start_nodes(2)
        sidekiq = self.sidekiq(*QUEUES, concurrency=3)
        for round_ in range(KILLS):
            place = round_ % 2
            self.push_raw(JOBS_PER_ROUND // 2)
            self.push_through(self.nodes[1 - place], JOBS_PER_ROUND // 2)
            # How long they run makes the moment random; nothing waits for it.
            time.sleep(random.uniform(0, 0.5))
            self.kill_node(place)
            time.sleep(random.uniform(0, 0.2))
            self.kill_worker(1 - place)
            # Sidekiq traps TERM only once it has started.
            eventually(lambda: any("Running in ruby" in line for line in sidekiq.lines), "Sidekiq")
            self.killed.append((f"sidekiq-{sidekiq.process.pid}", time.monotonic()))
            sidekiq.signal(15)
            sidekiq = self.sidekiq(*QUEUES, concurrency=3)
        eventually(lambda: set(self.ran()) >= self.pushed, "all jobs to be done", 180)
        left = lambda: [self.redis.number("LLEN", f"queue:{queue}") for queue in QUEUES] + [
            self.redis.number("ZCARD", name) for name in ("retry", "dead", "schedule")
        ]
        eventually(lambda: not any(left()), "empty queues")
        eventually(lambda: not self.redis.call("KEYS", "weir:*:reserved"), "no reservation to be left", 120)
        twice = self.check_repeated_starts()
        print(f"{KILLS} kills of nodes, of workers and ends of Sidekiq: {len(self.pushed)} jobs, 0 lost, {twice} begun again")

    def check_repeated_starts(self):
        """A job begins again only after the node or the worker that had it was killed."""
        starts = collections.defaultdict(list)
        for line in self.lines():
            word, jid, worker, node, at, *_ = line
            if word == "start":
                starts[jid].append((float(at), worker, node))
        twice = 0
        for jid, began in starts.items():
            began.sort()
            for (first, worker, node), (again, _, _) in zip(began, began[1:]):
                twice += 1
                kills = [name for name, at in self.killed if name in (worker, node) and first - 1 < at < again]
                self.assertTrue(kills, f"{jid} began at {first} and {again}: {began}, {self.killed}")
        return twice

    def test_what_sidekiq_loses_by_kill_is_what_it_had_popped(self):
        lost_total = 0
        for _ in range(max(1, KILLS // 5)):
            self.push_raw(100)
            sidekiq = self.sidekiq(*QUEUES, concurrency=5)
            before = len(self.ran())
            eventually(lambda: len(self.ran()) > before + 20, "some jobs to be done")
            sidekiq.signal(9)
            waiting = set()
            for queue in QUEUES:
                waiting |= {json.loads(job)["jid"] for job in self.redis.call("LRANGE", f"queue:{queue}", 0, -1)}
            # Weir, which runs from the second round on, has its jobs in these hashes.
            for queue in QUEUES:
                for value in self.redis.call("HVALS", f"weir:{{queue:{queue}}}:reserved"):
                    waiting.add(json.loads(value.split(b"\n", 1)[1])["jid"])
            popped = self.pushed - waiting
            lost = popped - set(self.ran())
            self.assertLessEqual(len(lost), 5, "one for each of its threads")
            lost_total += len(lost)
            self.pushed -= lost
            if not self.nodes:
                self.start_nodes(1)
            eventually(lambda: set(self.ran()) >= self.pushed, "Weir to do all others")
        print(f"{max(1, KILLS // 5)} kills of Sidekiq: {lost_total} jobs lost, all of them popped")


if __name__ == "__main__":
    unittest.main()
