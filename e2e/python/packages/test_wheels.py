"""packages for Python as PyPI would have them: a wheel of each, what is in it, and that its code can be imported."""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULES = {"weir-realtime-python": "weir_realtime", "django-weir-tasks": "django_weir_tasks"}


class WheelTest(unittest.TestCase):
    def test_each_package_builds_a_wheel_with_types_and_licence(self):
        self.assertEqual({path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")}, set(MODULES))
        for package, module in MODULES.items():
            with self.subTest(package), tempfile.TemporaryDirectory(prefix="weir-e2e-") as folder:
                files = zipfile.ZipFile(self.build(package, folder))
                names = files.namelist()
                self.assertIn(f"{module}/py.typed", names)
                self.assertTrue(any(name.endswith("licenses/LICENSE") for name in names), names)
                metadata = files.read(next(name for name in names if name.endswith("METADATA"))).decode()
                self.assertIn("License-Expression: Apache-2.0", metadata)
                sources = ROOT.joinpath("packages", package, "src").rglob("*.py")
                expected = {str(path.relative_to(ROOT.joinpath("packages", package, "src"))) for path in sources}
                self.assertEqual({name for name in names if name.endswith(".py")}, expected)

    def test_the_versions_agree(self):
        for package, module in MODULES.items():
            folder = ROOT / "packages" / package
            project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
            source = (folder / "src" / module / "version.py").read_text()
            self.assertEqual(re.search(r'__version__ = "(.*)"', source).group(1), project["version"])

    def build(self, package, folder):
        """Of a copy: the build writes beside the sources."""
        copy = shutil.copytree(
            ROOT / "packages" / package, Path(folder, "copy"), ignore=shutil.ignore_patterns("__pycache__")
        )
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "--no-build-isolation", "--wheel-dir", folder, str(copy)], check=True)
        return next(Path(folder).glob("*.whl"))
