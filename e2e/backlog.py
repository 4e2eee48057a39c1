"""Fills the Weir at the default port with a backlog, for the pages whose commands scripts/trial-docs runs: jobs of several
types and tenants in `default` and `mailers`, some that failed and are retried, and some that are dead."""

import json
import socket
import time


class Connection:
    def __init__(self, **hello):
        for _ in range(600):
            try:
                self.socket = socket.create_connection(("127.0.0.1", 7419))
                break
            except OSError:
                time.sleep(0.1)
        self.replies = self.socket.makefile("rb")
        self.replies.readline()
        self.run("HELLO " + json.dumps({"v": 2, **hello}))

    def run(self, command):
        self.socket.sendall(command.encode() + b"\r\n")
        reply = self.replies.readline().decode().strip()
        if reply.startswith("$") and reply != "$-1":
            reply = self.replies.read(int(reply[1:]) + 2).decode().strip()
        assert not reply.startswith("-"), f"{command}: {reply}"
        return reply


def job(number, jobtype, queue, **more):
    return {"jid": f"backlog-{number:04}", "jobtype": jobtype, "queue": queue, "args": [number],
            "custom": {"tenant": f"t{number % 5}"}, **more}


def main():
    producer = Connection()
    worker = Connection(wid="backlog-worker", hostname="web-1", pid=1)
    kinds = [("RemoteFollow", {}), ("SendMail", {"retry": 0})]
    failing = [job(number, *kinds[number % 2][:1], "failing", **kinds[number % 2][1]) for number in range(20)]
    waiting = [job(number, jobtype, queue) for number, (jobtype, queue) in enumerate(
        [(jobtype, queue) for jobtype in ("Sync", "Digest", "SendMail") for queue in ("default", "mailers")] * 50, 100)]
    producer.run("PUSHB " + json.dumps(failing + waiting))
    for _ in failing:
        jid = json.loads(worker.run("FETCH failing"))["jid"]
        error = {"jid": jid, "errtype": "Timeout", "message": "api.example timed out", "backtrace": []}
        worker.run("FAIL " + json.dumps(error))
    worker.socket.sendall(b"END\r\n")


main()
