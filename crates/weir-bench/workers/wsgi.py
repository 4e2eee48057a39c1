"""The sample app of `weir-bench front` for any WSGI server: gunicorn --workers 16 wsgi:app"""

import os
import re
import sys
import time


def app(environ, start_response):
    asked = re.search(r"\bus=(\d+)", environ.get("QUERY_STRING", ""))
    if asked and int(asked[1]):
        time.sleep(int(asked[1]) / 1e6)
    headers = [("X-Worker", str(os.getpid())), ("Content-Type", "text/plain"), ("Content-Length", "2")]
    start_response("200 OK", headers)
    return [b"ok"]


if "BENCH_BUSY_WORD" in os.environ:
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../examples/busy-word"))
    import weir_busy

    app = weir_busy.Middleware(app)
