"""Sidekiq's API classes and its pages show what Weir does, and their buttons reach Weir's workers."""

import json
import unittest

from stack import SidekiqCase, eventually, needs_sidekiq


@needs_sidekiq
class Pages(SidekiqCase):
    def setUp(self):
        super().setUp()
        self.node = self.weir()
        self.client = self.faktory(self.node)

    def push(self, jid, **fields):
        job = {"jid": jid, "jobtype": "Mailer", "queue": "mail", "args": [1, "x"], **fields}
        self.assertEqual(self.client.run("PUSH " + json.dumps(job)), b"OK")

    def pages(self, *arguments):
        return json.loads(self.ruby("pages.rb", *arguments).splitlines()[-1])

    def fail_next(self, errtype):
        jid = json.loads(self.client.run("FETCH mail"))["jid"]
        failure = {"jid": jid, "errtype": errtype, "message": f"{errtype} & more", "backtrace": ["a:1"]}
        self.assertEqual(self.client.run("FAIL " + json.dumps(failure)), b"OK")

    def test_pages_and_api_show_queues_retries_the_dead_and_work(self):
        self.push("retry-0001", retry=25)
        self.fail_next("Timeout")
        self.push("dead-00001", retry=-1)
        self.fail_next("Refused")
        self.push("later-0001", at="2090-01-01T00:00:00Z")
        worker = self.faktory(self.node, "wid-of-pages")
        self.push("running-01")
        self.assertIn(b"running-01", worker.run("FETCH mail"))
        self.push("waiting-01")
        seen = eventually(lambda: (found := self.pages())["work"] and found, "a process with work")
        self.assertEqual(seen["queues"], [["mail", 1]])
        self.assertEqual(seen["waiting"], [["waiting-01", "Mailer"]])
        self.assertEqual(seen["retries"], [["retry-0001", "Timeout & more"]])
        self.assertEqual(seen["dead"], [["dead-00001", "Refused"]])
        self.assertEqual(seen["scheduled"], ["later-0001"])
        self.assertEqual(seen["work"], [["mail", "running-01"]])
        self.assertEqual(seen["processes"], [["e2e", ["mail"], 1, "false", []]])
        expected = {
            "/busy": ["e2e:1:", "running-01", "Mailer"],
            "/queues": ["mail"],
            "/queues/mail": ["Mailer", "1, &quot;x&quot;"],
            "/retries": ["retry-0001", "Timeout &amp; more"],
            "/scheduled": ["later-0001"],
            "/morgue": ["Refused &amp; more"],
            "/": ["Dashboard"],
        }
        for page, words in expected.items():
            for word in words:
                self.assertIn(word, seen["pages"][page], page)
        eventually(lambda: self.pages()["stats"] == [2, 2, 1, 1, 1, 1], "statistics that agree")

    def test_buttons_quiet_and_stop_reach_a_worker_of_weir(self):
        worker = self.python("../pyfaktory_worker.py", "mail", "wid-buttons", WEIR_JOBS_URL=self.node.url)
        eventually(lambda: self.redis.number("SCARD", "processes") == 1, "a process on the page")
        self.pages("quiet")
        eventually(lambda: any('"quiet"' in line for line in worker.lines), "the worker to be quiet")
        eventually(lambda: self.pages()["processes"][0][3] == "true", "the page to say so")
        self.pages("stop")
        eventually(lambda: any('"terminating"' in line for line in worker.lines), "the worker to stop")


if __name__ == "__main__":
    unittest.main()
