"""A Weir with an index of gems, and clients of it in folders of their own."""

import http.client
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Longest wait for anything.
DEADLINE_SECONDS = 60
# Gems with hundreds of dependencies between them, as Debian has them installed.
ROOTS = ["rails", "sidekiq", "devise"]
ANSWER = re.compile(r'^weir_gems_answers_total\{endpoint="(\w+)",status="(\w+)"\} (\d+)$', re.MULTILINE)


def run(command, folder, environment, check=True):
    """Runs a program to its end; its output, both streams together."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_SECONDS,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def environment_of(home):
    """What clients see: nothing of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("BUNDLE", "GEM", "RUBY"))}
    return {
        **kept,
        "HOME": str(home),
        "BUNDLE_SILENCE_ROOT_WARNING": "1",
        "BUNDLE_PATH": "vendor",
        # Something that fails is to show.
        "BUNDLE_RETRY": "0",
        "BUNDLE_TIMEOUT": "20",
    }


def build(folder, *names):
    """Builds these gems, which are installed, and all that they need."""
    command = ["ruby", str(HERE / "build_gems.rb"), str(folder), *names]
    built = run(command, HERE, environment_of(folder)).split()
    return [folder / name for name in built]


def build_new(folder, name, version, dependencies=(), more=""):
    """Builds a gem that there is nowhere else; `more` is added to its specification."""
    return build_all(folder, [(name, version)], dependencies, more)[0]


def build_all(folder, releases, dependencies=(), more=""):
    """The same for several; all need the same."""
    folders = [Path(folder) / f"{name}-{version}" for name, version in releases]
    needs = "".join(f"s.add_dependency {text}\n" for text in dependencies)
    for where, (name, version) in zip(folders, releases):
        (where / "lib").mkdir(parents=True)
        (where / "lib" / f"{name}.rb").write_text(f"puts '{name} {version}'\n")
        (where / "new.gemspec").write_text(
            f'Gem::Specification.new do |s|\ns.name = "{name}"\ns.version = "{version}"\ns.summary = "e2e"\n'
            f's.authors = ["e2e"]\ns.homepage = "https://weir.example"\ns.license = "Apache-2.0"\n'
            f's.files = ["lib/{name}.rb"]\n{needs}{more}end\n'
        )
    build = 'ARGV.each { |it| Dir.chdir(it) { Gem::Package.build(Gem::Specification.load("#{it}/new.gemspec")) } }'
    run(["ruby", "-rrubygems/package", "-e", build, *map(str, folders)], folder, environment_of(folder))
    return [next(where.glob("*.gem")) for where in folders]


def certified(folder):
    # Here, so that what needs no certificates needs no library for them.
    from certificate import certify

    return certify(folder)


class Index:
    """A running Weir; to be closed."""

    def __init__(self, more="", tls=False):
        self._folder = tempfile.TemporaryDirectory(prefix="weir-e2e-gems-")
        self.folder = Path(self._folder.name)
        self.program = os.environ["WEIR_BIN"]
        self.certificate = certified(self.folder) if tls else None
        more += '[gems.tls]\ncert = "cert.pem"\nkey = "key.pem"\n' if tls else ""
        self.config = self.folder / "weir.toml"
        self.write(more)
        self._process = subprocess.Popen(
            [self.program, "up", "--config", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._ready, self._seen = queue.Queue(), []
        threading.Thread(target=self._read, daemon=True).start()
        try:
            self.addresses = self._ready.get(timeout=DEADLINE_SECONDS)
        except queue.Empty:
            print("".join(self._seen))
            self.close()
            raise
        self.url = f"{'https' if tls else 'http'}://{self.addresses['gems']}"
        self.mounted_url = f"http://{self.addresses['front']}/gems-index"
        self.key = self.command("gems", "key", "create", "e2e", "--scope", "push_rubygem,yank_rubygem").strip()

    def write(self, more):
        self.config.write_text(
            '[console]\nlisten = "127.0.0.1:0"\n[jobs]\nlisten = "127.0.0.1:0"\nstore = "memory"\n'
            f'[front]\nlisten = "127.0.0.1:0"\n[gems]\nlisten = "127.0.0.1:0"\nmount = "/gems-index"\n{more}'
        )

    def reload(self, more):
        """Other settings, of those that a running Weir takes."""
        self.write(more)
        self._process.send_signal(signal.SIGHUP)

    def hang(self):
        """Nothing is answered any more, and no connection is closed."""
        self._hung = [self._process.pid, self.service()]
        for pid in self._hung:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self):
        for pid in self._hung:
            os.kill(pid, signal.SIGCONT)

    def kill_service(self):
        """Kills the process that serves with nothing said; another one is there when this returns."""
        before = self.service()
        os.kill(before, signal.SIGKILL)

        def is_replaced():
            try:
                return self.service() != before
            except AssertionError:
                return False

        self.until(is_replaced)

    def _read(self):
        for line in self._process.stdout:
            self._seen.append(line)
            del self._seen[:-100]
            if ready := re.search(r"\bweir ready (.*)", line):
                self._ready.put(dict(re.findall(r"(\w+)=(\S+)", ready.group(1))))

    def command(self, *arguments):
        """A command of Weir; its standard output."""
        command = [self.program, *arguments, "--config", str(self.config)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        if done.returncode != 0:
            raise AssertionError(f"weir {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")
        return done.stdout

    def trust(self):
        """What makes clients take its certificate."""
        return {"SSL_CERT_FILE": self.certificate, "BUNDLE_SSL_CA_CERT": self.certificate} if self.certificate else {}

    def push(self, files, key=None, check=True):
        """As `gem push` does it, many in one process."""
        environment = {**environment_of(self.folder), **self.trust(), "GEM_HOST_API_KEY": key or self.key}
        command = ["ruby", str(HERE / "push_gems.rb"), self.url, *map(str, files)]
        return run(command, self.folder, environment, check)

    def gem(self, *arguments, key=None, check=True):
        environment = {**environment_of(self.folder), **self.trust(), "GEM_HOST_API_KEY": key or self.key}
        return run(["gem", *arguments], self.folder, environment, check)

    def get(self, path, headers=None, method="GET", connection=None):
        """An answer, read."""
        own = connection or http.client.HTTPConnection(self.addresses["gems"], timeout=DEADLINE_SECONDS)
        try:
            own.request(method, path, headers=headers or {})
            answer = own.getresponse()
            answer.content = answer.read()
            return answer
        finally:
            if connection is None:
                own.close()

    def metrics(self):
        connection = http.client.HTTPConnection(self.addresses["console"], timeout=DEADLINE_SECONDS)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def answers(self):
        """How many answers of each status each endpoint has given: {"versions 200": 1}."""
        found = ANSWER.findall(self.metrics())
        counts = ((f"{endpoint} {status}", int(count)) for endpoint, status, count in found)
        return Counter(dict(counts))

    def service(self):
        """The process that serves."""
        return json.loads(self.command("status", "--json"))["pid"]

    def until(self, is_so):
        end = time.monotonic() + DEADLINE_SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise AssertionError("it never was so")
            time.sleep(0.02)

    def close(self):
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=DEADLINE_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process.stdout.close()
            self._folder.cleanup()


class Client:
    """An app with a Gemfile, in a folder and a home of its own."""

    def __init__(self, index, gems, url=None):
        self.index = index
        self.folder = Path(tempfile.mkdtemp(dir=index.folder))
        self.home = self.folder / "home"
        self.home.mkdir()
        self.write(gems, url)

    def write(self, gems, url=None):
        lines = "".join(f"gem {gem}\n" for gem in gems)
        (self.folder / "Gemfile").write_text(f'source "{url or self.index.url}"\n{lines}')

    def bundle(self, *arguments, check=True):
        """Runs bundler; what it asked the index meanwhile, by endpoint and status."""
        before = self.index.answers()
        self.output = run(["bundle", *arguments], self.folder, {**environment_of(self.home), **self.index.trust()}, check)
        return dict(self.index.answers() - before)

    def locked(self):
        """The lock file's gems: {"rack": "2.2.22"}."""
        text = (self.folder / "Gemfile.lock").read_text()
        return dict(re.findall(r"^    ([\w.-]+) \(([\w.]+)\)$", text, re.MULTILINE))

    def cached(self):
        """What Bundler keeps of the compact index: {"versions": bytes, "rack": bytes of its info}."""
        folders = list(self.home.glob(".bundle/cache/compact_index/*"))
        if not folders:
            return {}
        assert len(folders) == 1, folders
        infos = {path.name: path.read_bytes() for path in (folders[0] / "info").glob("*")}
        versions = folders[0] / "versions"
        return {**infos, **({"versions": versions.read_bytes()} if versions.exists() else {})}

    def installed(self):
        """The names of the files that are unpacked."""
        return {path.name for path in self.folder.glob("vendor/ruby/*/gems/*")}

    def ruby(self, text):
        return run(["bundle", "exec", "ruby", "-e", text], self.folder, environment_of(self.home))

    def close(self):
        shutil.rmtree(self.folder)
