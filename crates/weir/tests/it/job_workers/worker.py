"""Works off jobs over Faktory's protocol, one at a time, and prints what it does. SIGTERM: not another one.

The first argument of a job is its duration in seconds; two more are the class and the message of its error."""

import json
import os
import signal
import socket
import sys
import time

stopping = False


def stop(*_):
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)
arguments = sys.argv[1:]
print("told", *arguments, flush=True)
queues = [name for flag, name in zip(arguments[1::2], arguments[2::2]) if flag == "-q"]
stream = None


def connect():
    """Until it is there: it may be on its way from one process to the next."""
    global stream
    while True:
        try:
            stream = socket.create_connection(("127.0.0.1", int(os.environ["JOBS_PORT"]))).makefile("rwb")
            if stream.readline().startswith(b"+HI"):
                hello = {"v": 2, "wid": f"worker-{os.getpid()}", "hostname": "here", "pid": os.getpid(), "labels": []}
                if exchange("HELLO " + json.dumps(hello)).startswith(b"+OK"):
                    return
        except OSError:
            pass
        time.sleep(0.01)


def exchange(command):
    stream.write(command.encode() + b"\r\n")
    stream.flush()
    line = stream.readline()
    if line.startswith(b"$") and line != b"$-1\r\n":
        return json.loads(stream.read(int(line[1:]) + 2))
    return line


def ask(command):
    while True:
        try:
            if answer := exchange(command):
                return answer
        except OSError:
            pass
        connect()


connect()
print("at work", os.getpid(), flush=True)
grown = []
while not stopping:
    job = ask("FETCH " + " ".join(queues))
    if not isinstance(job, dict):
        continue
    print("begins", job["jid"], flush=True)
    if job["jobtype"] == "Grow":
        grown.append(os.urandom(1 << 20) * 100)
    time.sleep(job["args"][0])
    if error := job["args"][1:]:
        report = {"jid": job["jid"], "errtype": error[0], "message": error[1]}
        print("answered", ask("FAIL " + json.dumps(report)), flush=True)
    else:
        print("answered", ask("ACK " + json.dumps({"jid": job["jid"]})), flush=True)
print("ends", flush=True)
