"""A web app that needs nothing but Python: `app.py SOCKET`. It serves one request at a time."""

import os
import signal
import socket
import socketserver
import sys
import time
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

PAGE = """<!doctype html><html lang="en"><meta name="viewport" content="width=device-width">
<title>Behind Weir</title><body style="font: 1.1em/1.6 sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em">
<h1>Process {pid} answered</h1>
<p>Reload, and another one does: each request goes to a process that is free.</p>
<ul><li><a href="/slow">/slow</a> takes 3 seconds; the others go on serving.</li>
<li><a href="/stuck">/stuck</a> never ends. After 10 seconds its process is replaced.</li></ul>
<p>Or try <code>kill -9 {pid}</code>.</p>
"""


def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path not in ("/", "/slow", "/stuck"):
        start_response("404 Not Found", [("Content-Type", "text/plain")])
        return [b"There is no such page.\n"]
    if path == "/slow":
        time.sleep(3)
    while path == "/stuck":
        time.sleep(60)
    start_response("200 OK", [("Content-Type", "text/html; charset=utf-8")])
    return [PAGE.format(pid=os.getpid()).encode()]


class Server(WSGIServer):
    """wsgiref's server on a unix socket."""

    address_family = socket.AF_UNIX

    def server_bind(self):
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "sample", 80
        self.setup_environ()

    def get_request(self):
        connection, _ = super().get_request()
        # A unix socket has no client's address, and wsgiref wants one.
        return connection, ("weir", 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = Server(sys.argv[1], WSGIRequestHandler)
    server.set_app(app)
    server.serve_forever()
