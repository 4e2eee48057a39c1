"""The adapters of examples/busy-word by themselves: what the record says after each request."""

import importlib.util
import os
import shutil
import subprocess
import unittest
from pathlib import Path

ADAPTERS = Path(__file__).resolve().parents[3] / "examples/busy-word"
INDEX = 3

# Prints the record's state and count after each step; a state is named by the request that began then.
RUBY = """
require "fiddle"
require "#{ARGV.fetch(0)}/weir_busy"
memory = IO.for_fd(Integer(ARGV.fetch(1)))
now = 0
Process.define_singleton_method(:clock_gettime) { |*| now += 1000 }
word = WeirBusy::Word.new(memory.fileno, 3)
show = -> { puts IO.binread("/proc/self/fd/#{memory.fileno}", 16, 96).unpack("QQ").join(" ") }
first = word.begin; show.()
second = word.begin; show.()
third = word.begin; show.()
word.end(second); show.()
word.end(first); show.()
word.end(first); show.()
word.end(third); show.()
iterated = Class.new { def each = yield("chunk") }.new
called = Class.new { def call(stream) = stream }.new
iterated, called = [iterated, called].map do |body|
  WeirBusy::Middleware.new(->(_) { [200, {}, body] }, word).call({})[2]
end
puts iterated.class.method_defined?(:each, false), called.respond_to?(:each), called.call(7)
show.()
[iterated, called].each(&:close); show.()
"""
STEPS = ["1000 0", "1000 0", "1000 0", "1000 1", "3000 2", "3000 2", "0 3"]


def memory(case):
    descriptor = os.memfd_create("busy")
    case.addCleanup(os.close, descriptor)
    os.ftruncate(descriptor, 4096)
    return descriptor


class Word(unittest.TestCase):
    def test_python_says_how_old_the_oldest_request_is(self):
        spec = importlib.util.spec_from_file_location("weir_busy", ADAPTERS / "weir_busy.py")
        weir_busy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(weir_busy)
        clock = iter(range(10**9, 10**10, 10**9))
        weir_busy.time = type("Clock", (), {"monotonic_ns": lambda: next(clock)})
        descriptor = memory(self)
        word = weir_busy.BusyWord(descriptor, INDEX)
        shown = []

        def show():
            record = os.pread(descriptor, 16, 32 * INDEX)
            shown.append(" ".join(str(int.from_bytes(record[at : at + 8], "little")) for at in (0, 8)))

        tokens = []
        for _ in range(3):
            tokens.append(word.begin())
            show()
        for ended in (1, 0, 0, 2):
            word.end(tokens[ended])
            show()
        self.assertEqual(shown, STEPS)

    @unittest.skipUnless(shutil.which("ruby"), "ruby is not installed")
    def test_ruby_says_how_old_the_oldest_request_is_and_leaves_bodies_as_they_are(self):
        descriptor = memory(self)
        command = ["ruby", "-e", RUBY, str(ADAPTERS), str(descriptor)]
        output = subprocess.run(command, pass_fds=[descriptor], capture_output=True, text=True, check=False)
        self.assertEqual(output.returncode, 0, output.stderr)
        bodies = ["true", "false", "7", "4000 3", "0 5"]
        self.assertEqual(output.stdout.split("\n")[:-1], STEPS + bodies)


if __name__ == "__main__":
    unittest.main()
