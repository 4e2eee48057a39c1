"""The alert rules, as Prometheus itself reads and tries them."""

import shutil
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=ROOT / "e2e/.cache/prometheus/usr/bin")


@unittest.skipUnless(PROMTOOL, "promtool is not installed (Debian: prometheus); e2e/setup could not get it")
class Rules(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_they_are_sound(self):
        rules = sorted((ROOT / "deploy/prometheus").glob("*.rules.yml"))
        self.assertTrue(rules)
        self.promtool("check", "rules", "--lint-fatal", *rules)

    def test_each_fires_at_what_it_is_about_and_not_otherwise(self):
        for test in sorted((ROOT / "e2e/prometheus").glob("*.test.yml")):
            self.promtool("test", "rules", test)


if __name__ == "__main__":
    unittest.main()
