"""Application servers that take connections themselves, by sockets that they inherit."""

import os
import re
import shutil
import signal
import sys
import threading
import time
import unittest
from pathlib import Path

from server import Weir

BIN = Path(sys.executable).parent
GUNICORN = [str(BIN / "gunicorn"), "--workers", "1", "--log-level", "warning"]
HYPERCORN = [str(BIN / "hypercorn"), "asgi:app"]
PUMA = ["puma", "-q", "-C", "puma.rb", "-w", "0", "-t", "1:1", "--bind-to-activated-sockets", "only", "shared.ru"]
SEVERAL = "queues = 3\nqueues_per_worker = 2\n"
COMMANDS = {
    # Those that listen on whatever they are given.
    "gunicorn": ([*GUNICORN, "shared_wsgi:app"], SEVERAL),
    "gunicorn, told where": ([*GUNICORN, "-b", "fd://{fd0}", "-b", "fd://{fd1}", "wsgi:app"], SEVERAL),
    "hypercorn": ([*HYPERCORN, "-b", "fd://{fd0}", "-b", "fd://{fd1}"], SEVERAL),
    "unicorn": (["unicorn", "-E", "none", "shared.ru"], SEVERAL + 'stop_signal = "QUIT"\n'),
    "node": (["node", "shared.js"], SEVERAL),
    "node, as it is": (["node", "--require", "../../../examples/busy-word/weir-preload.js", "plain.js"], SEVERAL),
    # Those that take one.
    "puma": (PUMA, ""),
    "uvicorn": ([str(BIN / "uvicorn"), "--fd", "{fd}", "--log-level", "warning", "asgi:app"], ""),
}
# They end by closing connections that they have accepted and not read from yet: a few, under full load.
CLOSES_UNREAD = {"hypercorn", "uvicorn"}
JOIN_IDLE = {
    "gunicorn": ([*GUNICORN, "shared_wsgi:app"], ""),
    "unicorn": (["unicorn", "-E", "none", "shared.ru"], 'stop_signal = "QUIT"\n'),
    # Node maps the kernel's memory with the package koffi, which is not among those that the tests install.
    "node": (["node", "shared.js"], ""),
}


class Shared(Weir):
    """Weir with an app whose workers take connections themselves."""

    def __init__(self, command, more):
        super().__init__(command, more=f'mode = "sockets"\nlisten = "127.0.0.1:0"\n{more}')

    def _read(self):
        for line in self._process.stdout:
            self._seen.append(line)
            del self._seen[:-100]
            if found := re.search(r"\bweir ready .*\bapp\.app=(\S+)", line):
                self._ready.put(found.group(1))

    def pids(self):
        """The processes that serve, whoever the kernel prefers."""
        return {worker["pid"] for worker in self.listed()["workers"] if worker["state"] == "serving"}


def start(case, commands, name, more=""):
    command, own = commands[name]
    if not shutil.which(command[0]):
        case.skipTest(f"{command[0]} is not installed: e2e/packages.txt")
    weir = Shared(command, own + more)
    case.addCleanup(weir.close)
    return weir


def ask_until(weir, is_over, statuses):
    def ask():
        while not is_over.is_set():
            try:
                statuses.append(weir.get("/pid")[0])
            except OSError as error:
                statuses.append(repr(error))

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    return clients


def share(case, weir, before):
    """30 requests, each of which finds all workers idle."""
    for _ in range(30):
        case.assertEqual(weir.get("/pid")[0], 200)
        # Longer than the kernel prefers the same worker.
        time.sleep(0.01)
    # Their counts begin with the probes, of which none was a request.
    weir.until(lambda: sum(worker["given"] for worker in weir.listed()["workers"]) == before + 30)
    case.assertGreater(weir.listed()["jain_index"], 0.95)


class EachServer(unittest.TestCase):
    def test_every_connection_is_served_and_a_worker_that_dies_is_replaced(self):
        for name in COMMANDS:
            with self.subTest(name):
                weir = start(self, COMMANDS, name)
                self.assertEqual({weir.get("/pid")[0] for _ in range(30)}, {200})
                killed = weir.listed()["workers"][0]["pid"]
                os.kill(killed, signal.SIGKILL)
                weir.until(lambda: killed not in weir.pids() and len(weir.pids()) == 3)
                self.assertEqual({weir.get("/pid")[0] for _ in range(30)}, {200})
                weir.close()

    def test_a_rolling_restart_loses_no_request(self):
        for name in COMMANDS.keys() - CLOSES_UNREAD:
            with self.subTest(name):
                weir = start(self, COMMANDS, name)
                before, statuses, is_over = weir.pids(), [], threading.Event()
                clients = ask_until(weir, is_over, statuses)
                weir.command("restart", "app")
                weir.until(lambda: weir.listed()["rolling"] == "finished")
                weir.until(lambda: not before & weir.pids())
                is_over.set()
                for client in clients:
                    client.join()
                self.assertEqual(set(statuses), {200})
                weir.close()


    def test_a_restart_and_an_upgrade_of_weir_leave_the_workers_alone(self):
        for name in COMMANDS:
            with self.subTest(name):
                weir = start(self, COMMANDS, name)
                before, statuses, is_over = weir.pids(), [], threading.Event()
                clients = ask_until(weir, is_over, statuses)
                for verb in ("restart", "upgrade"):
                    weir.run(verb)
                    self.assertEqual(weir.pids(), before)
                is_over.set()
                for client in clients:
                    client.join()
                self.assertEqual(set(statuses), {200})
                weir.close()


class BusyWord(unittest.TestCase):
    def test_a_request_that_is_too_old_ends_its_worker(self):
        for name in ("gunicorn", "unicorn", "node", "puma"):
            with self.subTest(name):
                weir = start(self, COMMANDS, name, 'evict_after = "300ms"\n')
                before = weir.pids()
                with self.assertRaises(OSError):
                    weir.get("/stuck")
                weir.until(lambda: len(before & weir.pids()) == 2 and len(weir.pids()) == 3)
                weir.close()

    def test_with_join_idle_all_workers_get_their_share(self):
        for name in JOIN_IDLE:
            with self.subTest(name):
                if name == "node" and not os.environ.get("NODE_PATH"):
                    self.skipTest("NODE_PATH names no folder with koffi")
                weir = start(self, JOIN_IDLE, name, 'selection = "join-idle"\n')
                if weir.listed()["selection"] != "join-idle":
                    self.skipTest(weir.listed()["selection"])
                share(self, weir, 0)
                # Weir's parent is another program then, and the kernel still chooses by their words.
                weir.run("upgrade")
                share(self, weir, 30)
                weir.close()


if __name__ == "__main__":
    unittest.main()
