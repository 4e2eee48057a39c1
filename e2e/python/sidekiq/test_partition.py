"""One of two nodes is cut off from Redis for longer than its lease, while its workers have jobs.

Its jobs return to the other node, and none is lost. What runs twice is what the node had when it was cut off.
"""

import collections
import json
import random
import shutil
import unittest

from cuttable_proxy import CuttableProxy
from stack import SidekiqCase, eventually, weir_binary

QUEUE = "default"
WORKERS_PER_NODE = 4
JOBS = 60


@unittest.skipUnless(weir_binary() and shutil.which("redis-server"), "needs Weir and redis-server")
class Partition(SidekiqCase):
    def setUp(self):
        super().setUp()
        self.proxy = CuttableProxy(self.redis, self.folder)
        self.addCleanup(self.proxy.stop)
        self.pushed = set()
        self.reached = self.start_node("reached", self.redis)
        self.cut_off = self.start_node("cut-off", self.proxy)

    def start_node(self, name, redis):
        node = self.weir(name, redis=redis)
        node.name, port_file = name, self.folder / f"port-{name}"
        port_file.write_text(str(node.address[1]))
        for place in range(WORKERS_PER_NODE):
            words = [name, node.address[0], port_file, f"wid-{name}-{place}", QUEUE]
            self.python("load_worker.py", *words, JOB_SECONDS_MAX=1)
        return node

    def push_through(self, node, count):
        client = self.faktory(node)
        for _ in range(count):
            jid = f"{random.getrandbits(96):024x}"
            job = {"jid": jid, "jobtype": "T", "args": [], "queue": QUEUE}
            self.assertEqual(client.run("PUSH " + json.dumps(job)), b"OK")
            self.pushed.add(jid)

    def begun(self, word="start"):
        """The nodes whose workers have logged this word, in order, by jid."""
        nodes = collections.defaultdict(list)
        for line in self.lines():
            if line[0] == word:
                nodes[line[1]].append(line[3])
        return nodes

    def count(self, word, node):
        return sum(nodes.count(node.name) for nodes in self.begun(word).values())

    def reserved(self):
        values = self.redis.call("HVALS", f"weir:{{queue:{QUEUE}}}:reserved")
        return {json.loads(value.split(b"\n", 1)[1])["jid"] for value in values}

    def left(self):
        sets = [self.redis.number("ZCARD", name) for name in ("retry", "dead", "schedule")]
        return [self.redis.number("LLEN", f"queue:{QUEUE}"), *sets, len(self.reserved())]

    def test_jobs_of_a_node_that_was_cut_off_run_elsewhere_and_no_other_runs_twice(self):
        self.push_through(self.reached, JOBS)
        eventually(lambda: self.count("start", self.cut_off) > WORKERS_PER_NODE, "the node to have jobs")
        self.proxy.cut()
        # Those of both nodes: a job that was fetched a moment ago may not be in the log of the workers yet.
        reserved = self.reserved()
        held = {jid for jid in reserved if self.begun()[jid][-1:] == [self.cut_off.name]}
        self.assertTrue(held)
        self.push_through(self.reached, JOBS // 2)
        returned = lambda: {jid for jid, nodes in self.begun("done").items() if self.reached.name in nodes}
        eventually(lambda: returned() >= held, "the other node to run the jobs of the one that is cut off")
        eventually(lambda: set(self.ran()) >= self.pushed, "all jobs to be done")
        eventually(lambda: not any(self.left()), "nothing to be left while the node is cut off")

        # The node has lost its lease. Its reports of those jobs, which come now, change nothing, and it serves again.
        done_before = self.count("done", self.cut_off)
        self.proxy.heal()
        eventually(lambda: self.can_push(self.cut_off), "the node to use Redis again")
        self.push_through(self.cut_off, JOBS // 2)
        eventually(lambda: set(self.ran()) >= self.pushed, "all jobs to be done")
        eventually(lambda: not any(self.left()), "nothing to be left")
        self.assertGreater(self.count("done", self.cut_off), done_before)

        again = {jid: nodes for jid, nodes in self.begun().items() if len(nodes) > 1}
        for jid, nodes in again.items():
            self.assertEqual(nodes, [self.cut_off.name, self.reached.name], jid)
            self.assertIn(jid, reserved)
        print(f"{len(self.pushed)} jobs while a node was cut off with {len(held)}: 0 lost, {len(again)} begun again")

    def can_push(self, node):
        try:
            self.push_through(node, 1)
        except (OSError, RuntimeError):
            return False
        return True


if __name__ == "__main__":
    unittest.main()
