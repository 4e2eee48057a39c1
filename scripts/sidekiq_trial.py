"""What the trials with a real Sidekiq share: redis-server, Postgres, and the waits of jobs."""

import json
import os
import pathlib
import random
import shutil
import socket
import subprocess
import threading
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def stop(processes, seconds=90):
    """Ends processes that this script started; `None` stands for one that did not start."""
    processes = [process for process in processes if process]
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Redis:
    """A server, and pushes to it."""

    def __init__(self, folder):
        self.port = free_port()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""],
            stdout=subprocess.DEVNULL)
        for _ in range(100):
            try:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
                break
            except OSError:
                time.sleep(0.1)
        self.replies = self.connection.makefile("rb")
        self.lock = threading.Lock()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def run(self, *words):
        with self.lock:
            self.send(*words)
            return self.reply()

    def send(self, *words):
        words = [str(word).encode() for word in words]
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.connection.sendall(b"*%d\r\n" % len(words) + b"".join(parts))

    def reply(self):
        line = self.replies.readline().rstrip()
        if line[:1] == b"$":
            size = int(line[1:])
            return None if size < 0 else self.replies.read(size + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        return line

    def push(self, queue, jobs):
        """Pushes jobs: pairs of a class and its arguments."""
        now = time.time()
        texts = [json.dumps({
            "class": name, "args": arguments, "queue": queue, "retry": True, "jid": "%024x" % random.getrandbits(96),
            "created_at": now, "enqueued_at": now}) for name, arguments in jobs]
        self.run("SADD", "queues", queue)
        for at in range(0, len(texts), 500):
            self.run("LPUSH", f"queue:{queue}", *texts[at:at + 500])

    def queues(self):
        """Returns the names of all queues, also of those that somebody has moved jobs to."""
        return [name.decode() for name in self.run("SMEMBERS", "queues")]

    def waiting(self, queues):
        return sum(int(self.run("LLEN", f"queue:{queue}")[1:]) for queue in queues)


class Postgres:
    def __init__(self, folder, max_connections, log_connections=True):
        self.folder, self.port = folder, free_port()
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
        programs = programs[-1] if programs else pathlib.Path(shutil.which("postgres")).parent
        # Postgres refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        folder.mkdir()
        if self.user:
            shutil.chown(folder, self.user)
        run = dict(user=self.user, cwd=folder)
        subprocess.run([programs / "initdb", "-D", folder / "data", "-U", "trial", "-A", "trust"], check=True,
                       stdout=subprocess.DEVNULL, **run)
        self.log = open(folder.parent / "postgres.log", "w")
        settings = [f"port={self.port}", f"max_connections={max_connections}", "listen_addresses=127.0.0.1",
                    f"unix_socket_directories={folder}", "fsync=off"]
        settings += ["log_connections=on", "log_disconnections=on"] if log_connections else []
        arguments = [word for setting in settings for word in ("-c", setting)]
        self.process = subprocess.Popen([programs / "postgres", "-D", folder / "data", *arguments], stderr=self.log, **run)
        self.url = f"postgres://trial@127.0.0.1:{self.port}/postgres"
        # Without a superuser's rights the app cannot take the connections that Postgres reserves for the script and Weir.
        self.url_of_app = f"postgres://app@127.0.0.1:{self.port}/postgres"
        for _ in range(100):
            if subprocess.run(["psql", "-X", "-q", "-d", self.url, "-c", "SELECT 1"], capture_output=True).returncode == 0:
                break
            time.sleep(0.2)

    def run(self, text):
        subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url], input=text.encode(), check=True,
                       stdout=subprocess.DEVNULL)

    def most_connections(self, user):
        """Returns the most connections of a user at once, and those that were rejected, by the log."""
        self.log.flush()
        most = now = rejected = 0
        for line in open(self.log.name):
            if f"user={user} " in line:
                now += ("connection authorized" in line) - ("disconnection: session" in line)
            rejected += "too many clients" in line or "remaining connection slots" in line
            most = max(most, now)
        return most, rejected
