"""What the benchmarks of jobs in Redis share: redis-server, a proxy that delays, Weir, CPU time of processes."""

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WEIR = os.environ.get("BENCH_WEIR", os.path.join(ROOT, "target/dist/weir"))
CLIENT = os.environ.get("BENCH_CLIENT", os.path.join(ROOT, "target/dist/weir-bench"))
REDIS_ARGS = ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
REDIS_ARGS += os.environ.get("BENCH_REDIS_ARGS", "").split()
TICKS = os.sysconf("SC_CLK_TCK")
# Longer than anything takes that should happen at all.
PATIENCE = 1800


class Redis:
    """A redis-server in a folder of its own, and a connection to it."""

    def __init__(self, folder, port=None):
        os.makedirs(folder, exist_ok=True)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Fails if another program, maybe a Redis with data, has the port.
            probe.bind(("127.0.0.1", port or 0))
            self.port = probe.getsockname()[1]
        arguments = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder]
        self.process = subprocess.Popen(arguments + REDIS_ARGS, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError):
                self.connection = socket.create_connection(("127.0.0.1", self.port))
                break
            if time.monotonic() > deadline:
                raise SystemExit("redis-server does not start")
            time.sleep(0.02)
        self.file = self.connection.makefile("rb")

    def send(self, commands):
        text = bytearray()
        for command in commands:
            text += b"*%d\r\n" % len(command)
            for word in command:
                word = word if isinstance(word, bytes) else str(word).encode()
                text += b"$%d\r\n%s\r\n" % (len(word), word)
        self.connection.sendall(text)
        return [self.reply() for _ in commands]

    def reply(self):
        line = self.file.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"-":
            raise SystemExit(rest.decode())
        return int(rest) if kind == b":" else rest

    def __call__(self, *command):
        return self.send([command])[0]

    def spent(self):
        """Microseconds in commands and their number, both without those of this script, and CPU time."""
        inside, calls = 0, 0
        for line in self("INFO", "commandstats").decode().splitlines():
            if line.startswith("cmdstat_") and not line.startswith(("cmdstat_info", "cmdstat_llen")):
                words = dict(word.split("=") for word in line.split(":")[1].split(","))
                inside, calls = inside + int(words["usec"]), calls + int(words["calls"])
        return {"inside_us": inside, "commands": calls, "cpu_us": cpu_seconds([self.process.pid]) * 1e6}

    def waiting(self, database):
        """Jobs in the queue `default`."""
        return self.send([("SELECT", database), ("LLEN", "queue:default"), ("SELECT", 0)])[1]

    def stop(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def build_proxy(folder):
    """The program of scripts/delaying-proxy.rs."""
    program = os.path.join(folder, "delaying-proxy")
    source = os.path.join(ROOT, "scripts/delaying-proxy.rs")
    subprocess.run(["rustc", "--edition", "2021", "-O", source, "-o", program], check=True)
    return program


class DelayingProxy:
    """Half of the delay in each direction."""

    def __init__(self, program, upstream_port, delay_ms):
        command = [program, str(upstream_port), str(round(delay_ms * 500))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def round_trip_ms(self):
        """Median of PING through the proxy."""
        times = []
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            for _ in range(100):
                start = time.monotonic()
                connection.sendall(b"PING\r\n")
                connection.recv(100)
                times.append(time.monotonic() - start)
        return statistics.median(times) * 1000

    def stop(self):
        self.process.kill()
        self.process.wait()


class Weir:
    """A node with settings for `[jobs]`; by default its shards are the Redis servers on these ports, in turns."""

    def __init__(self, folder, ports=(), database=0, jobs=None):
        shards = ", ".join(f'{{ url = "redis://127.0.0.1:{port}/{database}" }}' for port in ports)
        config = os.path.join(folder, "weir.toml")
        with open(config, "w") as file:
            if jobs is None:
                jobs = f'store = {{ redis = [{shards}] }}\nredis.placement = "turn"'
            file.write(f'data_dir = "{folder}/data"\n[jobs]\nlisten = "127.0.0.1:0"\n{jobs}\n'
                       f'[console]\nlisten = "127.0.0.1:0"\n')
        log = os.path.join(folder, "weir.log")
        with open(log, "w") as errors:
            self.process = subprocess.Popen([WEIR, "up", "--config", config], stdout=subprocess.PIPE, stderr=errors,
                                            text=True)
        for line in self.process.stdout:
            if line.startswith("weir ready"):
                self.addresses = dict(word.split("=", 1) for word in line.split() if "=" in word)
                break
        else:
            raise SystemExit(open(log).read())

    def stop(self):
        self.process.terminate()
        self.process.wait()


def drain_command(weir, jobs, connections, payload_bytes, batch):
    """weir-bench, which fills the queue `default` and drains it, in batches of `batch` if that is not 0."""
    command = [CLIENT, "jobs", "--scenario", "fetch-ack", "--url", f"tcp://{weir.addresses['jobs']}", "--json"]
    command += ["--queue", "default", "--jobs", str(jobs), "--connections", str(connections)]
    command += ["--payload-bytes", str(payload_bytes), *(["--batch", str(batch)] if batch else [])]
    return command + [word for pid in process_group(weir.process.pid) for word in ("--server-pid", str(pid))]


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(") ", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def process_group(parent):
    """The process and its descendants."""
    found, parents = [parent], {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rsplit(") ", 1)[1].split()[1])
    for pid in found:
        found += [child for child, its_parent in parents.items() if its_parent == pid]
    return found


class Recorder:
    """Appends runs to BENCH_RECORD, for `weir-bench report`, with the floor of their round."""

    def __init__(self, title):
        self.title, self.path, self.floor = title, os.environ.get("BENCH_RECORD"), None

    def begin_round(self):
        if self.path:
            floor = subprocess.run([CLIENT, "floor"], stdout=subprocess.PIPE, check=True)
            self.floor = json.loads(floor.stdout)

    def add(self, load, peer, round_number, rate, server_us, client_us=None):
        if self.path:
            run = {"title": self.title, "load": load, "peer": peer, "round": round_number, "judged_by":
                   "operations_per_second", "operations_per_second": rate, "server_cpu_us_per_operation": server_us,
                   "client_cpu_us_per_operation": client_us, "floor": self.floor}
            with open(self.path, "a") as file:
                print(json.dumps(run), file=file)


def numbers(name, kind):
    """A list of numbers from the environment, `1,2,4`; None without it."""
    return [kind(word) for word in os.environ[name].split(",")] if name in os.environ else None


def skip(reason):
    print(f"skipped: {reason}", file=sys.stderr)
