"""The WSGI app, keeping its busy word."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/busy-word"))

import weir_busy
import wsgi

app = weir_busy.Middleware(wsgi.app)
