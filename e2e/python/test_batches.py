"""FETCHB, ACKB and FAILB as a client author would use them: sockets and JSON, no library."""

import json
import socket
import unittest
from urllib.parse import urlparse

from harness import DEADLINE_SECONDS, IS_ORIGINAL, URL, unique


class Connection:
    """A worker's connection."""

    def __init__(self, wid):
        server = urlparse(URL)
        self.socket = socket.create_connection((server.hostname, server.port), DEADLINE_SECONDS)
        self.replies = self.socket.makefile("rb")
        self.greeting = self.reply()
        hello = {"v": 2, "wid": wid, "hostname": "e2e", "pid": 1, "labels": ["python"]}
        self.command("HELLO", hello)

    def command(self, verb, *arguments):
        words = [a if isinstance(a, str) else json.dumps(a, separators=(",", ":")) for a in arguments]
        self.socket.sendall(" ".join([verb, *words]).encode() + b"\r\n")
        return self.reply()

    def reply(self):
        line = self.replies.readline().decode().rstrip("\r\n")
        kind, rest = line[0], line[1:]
        if kind == "*":
            return [self.reply() for _ in range(int(rest))]
        if kind == "$" and rest != "-1":
            return json.loads(self.replies.read(int(rest) + 2))
        return line

    def close(self):
        self.replies.close()
        self.socket.close()


@unittest.skipIf(IS_ORIGINAL, "the original has no batches")
class Batches(unittest.TestCase):
    def setUp(self):
        self.queue = unique("batch")
        self.worker = self.connect()

    def connect(self):
        connection = Connection(unique("wid"))
        self.addCleanup(connection.close)
        return connection

    def push(self, count, **fields):
        jids = [unique("jid") for _ in range(count)]
        jobs = [
            {"jid": jid, "jobtype": "echo", "args": [n], "queue": self.queue, **fields}
            for n, jid in enumerate(jids)
        ]
        self.assertEqual(self.worker.command("PUSHB", jobs), {})
        return jids

    def waiting(self):
        return self.worker.command("INFO")["faktory"]["queues"].get(self.queue, 0)

    def test_the_greeting_is_that_of_the_original(self):
        self.assertEqual(self.worker.greeting, '+HI {"v":2}')

    def test_jobs_are_fetched_in_order_and_end_together(self):
        jids = self.push(250)
        batches = []
        while batch := self.worker.command("FETCHB", "100", self.queue):
            batches.append([job["jid"] for job in batch])
            self.assertEqual(self.worker.command("ACKB", batches[-1]), {})
        self.assertEqual([len(batch) for batch in batches], [100, 100, 50])
        self.assertEqual(sum(batches, []), jids)
        self.assertEqual(self.waiting(), 0)

    def test_each_job_that_does_not_end_is_named(self):
        ended, failed, other = self.push(3, retry=0)
        self.worker.command("FETCHB", "2", self.queue)
        unknown = unique("jid")
        self.assertEqual(
            self.worker.command("ACKB", [ended, unknown]), {unknown: f"Job not found {unknown}"}
        )
        failures = [{"jid": jid, "errtype": "E", "message": "m"} for jid in (failed, other)]
        self.assertEqual(
            self.worker.command("FAILB", failures), {other: f"Job not found {other}"}
        )
        self.assertEqual(self.waiting(), 1)

    def test_a_batch_waits_for_its_first_job(self):
        other = self.connect()
        self.worker.socket.sendall(f"FETCHB 10 {self.queue}\r\n".encode())
        job = {"jid": unique("jid"), "jobtype": "echo", "args": [], "queue": self.queue}
        self.assertEqual(other.command("PUSH", job), "+OK")
        self.assertEqual([fetched["jid"] for fetched in self.worker.reply()], [job["jid"]])

    def test_single_commands_work_beside_batches(self):
        first, second, third = self.push(3)
        self.assertEqual(self.worker.command("FETCH", self.queue)["jid"], first)
        batch = self.worker.command("FETCHB", "2", self.queue)
        self.assertEqual([job["jid"] for job in batch], [second, third])
        self.assertEqual(self.worker.command("ACK", {"jid": second}), "+OK")
        self.assertEqual(self.worker.command("ACKB", [first, third]), {})

    def test_an_error_leaves_the_connection_usable(self):
        for number in ("0", "-1", "x", "999999999999999999999"):
            self.assertRegex(self.worker.command("FETCHB", number, self.queue), "^-ERR .*FETCHB")
        self.assertRegex(self.worker.command("ACKB", {"jid": "x"}), "^-ERR malformed ACKB")
        self.assertEqual(self.worker.command("FETCHB", "1", self.queue), [])


if __name__ == "__main__":
    unittest.main()
