"""Runs the Python suites, of this folder or of the one named, and ends with the line `N passed, N failed, N skipped`."""

import sys
import unittest
from pathlib import Path


def main():
    folder = Path(__file__).parent.joinpath(*sys.argv[1:])
    suite = unittest.defaultTestLoader.discover(str(folder), pattern="test_*.py")
    outcome = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(outcome.failures) + len(outcome.errors)
    skipped = len(outcome.skipped)
    passed = outcome.testsRun - failed - skipped
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
