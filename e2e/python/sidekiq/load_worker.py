"""A worker that logs what begins and what is done: NODE HOST PORT_FILE WID QUEUE.. It always connects again."""

import json
import os
import random
import sys
import time

from faktory_protocol import Faktory

LOG = os.open(os.environ["JOBS_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
BEAT_SECONDS = 1
JOB_SECONDS_MAX = float(os.environ.get("JOB_SECONDS_MAX", "0.05"))


def log(word, jid, wid, node):
    os.write(LOG, f"{word} {jid} {wid} {node} {time.monotonic()}\n".encode())


def work(client, node, wid, queues):
    beaten = 0
    while True:
        if time.monotonic() - beaten > BEAT_SECONDS:
            client.run("BEAT " + json.dumps({"wid": wid}))
            beaten = time.monotonic()
        job = client.run("FETCH " + " ".join(queues))
        if job is None:
            continue
        jid = json.loads(job)["jid"]
        log("start", jid, wid, node)
        time.sleep(random.uniform(0, JOB_SECONDS_MAX))
        log("done", jid, wid, node)
        client.run("ACK " + json.dumps({"jid": jid}))


def main(node, host, port_file, wid, *queues):
    while True:
        try:
            with open(port_file) as port:
                client = Faktory((host, int(port.read())), wid)
            work(client, node, wid, queues)
        except (OSError, RuntimeError, ValueError):
            time.sleep(0.1)


if __name__ == "__main__":
    main(*sys.argv[1:])
