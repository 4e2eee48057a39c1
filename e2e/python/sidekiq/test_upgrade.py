"""A rolling upgrade of two nodes on two shards, under load: an older program beside today's.

WEIR_PREVIOUS is the older program. The first node is upgraded in place (`weir upgrade`), the second one is
stopped and started; in between, both versions serve. No job is lost. WEIR_UPGRADE_SECONDS (5) is the time
of each stage.
"""

import json
import os
import random
import shutil
import threading
import time
import unittest
from pathlib import Path

from faktory_protocol import Faktory
from stack import Redis, SidekiqCase, eventually, number, weir_binary

PREVIOUS = os.environ.get("WEIR_PREVIOUS")
STAGE_SECONDS = number("WEIR_UPGRADE_SECONDS", 5)
QUEUES = [f"queue-{place}" for place in range(8)]
# A push whose connection broke is sent again, and stored once.
SETTINGS = 'push_memory = "60s"\n[jobs.limits]\nheartbeat_timeout = "5s"\n'


@unittest.skipUnless(PREVIOUS and weir_binary() and shutil.which("redis-server"), "set WEIR_PREVIOUS=PROGRAM")
class Upgrade(SidekiqCase):
    def setUp(self):
        super().setUp()
        folder = self.folder / "shard-b"
        folder.mkdir()
        second = Redis(folder)
        self.addCleanup(second.stop)
        self.shards = [self.redis, second]
        self.pushed, self.is_over = set(), threading.Event()

    def node(self, name):
        """A node that runs the older program, from a file of its own that an upgrade replaces."""
        program = self.folder / f"program-{name}"
        shutil.copy(PREVIOUS, program)
        node = self.weir(name, SETTINGS, redis=self.shards, binary=str(program))
        node.name, node.port_file = name, self.folder / f"port-{name}"
        self.write_port(node)
        for place in range(2):
            words = [name, node.address[0], node.port_file, f"wid-{name}-{place}", *QUEUES]
            self.python("load_worker.py", *words)
        return node

    def write_port(self, node):
        node.port_file.write_text(str(node.address[1]))

    def push(self, nodes):
        """Pushes through any node until it is over; each job until it is acknowledged."""
        clients = {}
        while not self.is_over.is_set():
            jid = f"{random.getrandbits(96):024x}"
            job = {"jid": jid, "jobtype": "T", "args": [], "queue": random.choice(QUEUES)}
            while not self.try_push(clients, random.choice(nodes), "PUSH " + json.dumps(job)):
                time.sleep(0.02)
            self.pushed.add(jid)
            time.sleep(0.005)
        for client in clients.values():
            client.close()

    def try_push(self, clients, node, command):
        try:
            if node.name not in clients:
                clients[node.name] = Faktory((node.address[0], int(node.port_file.read_text())))
            clients[node.name].run(command)
        except (OSError, RuntimeError, ValueError):
            if broken := clients.pop(node.name, None):
                broken.close()
            return False
        return True

    def replace_program(self, node):
        """As a package does: by a new file under the old name."""
        fresh = Path(node.binary + ".new")
        shutil.copy(weir_binary(), fresh)
        fresh.rename(node.binary)

    def nodes_seen_by(self, node):
        return {seen["state"] for seen in node.status()["jobs"]["log"].get("nodes", [])}

    def test_no_job_is_lost_while_two_versions_serve(self):
        first, second = self.node("first"), self.node("second")
        pusher = threading.Thread(target=self.push, args=([first, second],))
        pusher.start()
        self.addCleanup(pusher.join)
        self.addCleanup(self.is_over.set)
        time.sleep(STAGE_SECONDS)
        self.replace_program(first)
        first.run("upgrade")
        eventually(lambda: len(first.status()["jobs"]["log"].get("nodes", [])) == 2, "both nodes in the list")
        time.sleep(STAGE_SECONDS)
        self.replace_program(second)
        second.stop()
        second.start()
        self.write_port(second)
        time.sleep(STAGE_SECONDS)
        for node in (first, second):
            eventually(lambda: self.nodes_seen_by(node) == {"up"}, "both nodes to report")
        self.is_over.set()
        pusher.join()
        eventually(lambda: set(self.ran()) >= self.pushed, "all jobs to be done", 120)
        again = len(self.ran()) - len(set(self.ran()))
        eventually(lambda: not any(self.left()), "nothing to be left", 30)
        print(f"{len(self.pushed)} jobs while two nodes were upgraded: 0 lost, {again} ran again")

    def left(self):
        names = [f"queue:{queue}" for queue in QUEUES]
        lists = [shard.number("LLEN", name) for shard in self.shards for name in names]
        return lists + [shard.number("ZCARD", name) for shard in self.shards for name in ("retry", "dead")]


if __name__ == "__main__":
    unittest.main()
