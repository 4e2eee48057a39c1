"""A WSGI app for gunicorn and granian."""

import os
import time


def app(environ, start_response):
    path = environ["PATH_INFO"]
    if path == "/stuck":
        time.sleep(600)
    if path == "/parts":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (letter * 40_000 for letter in (b"a", b"b", b"c"))
    if path == "/events":
        start_response("200 OK", [("Content-Type", "text/event-stream")])
        return events()
    if path == "/pieces":
        environ["wsgi.input"].read()
        start_response("200 OK", [("Content-Type", "text/plain")])
        return pieces()
    body = str(os.getpid()).encode()
    if path == "/echo":
        # Both end the input at the body's end, also where it came in chunks.
        body = environ["wsgi.input"].read()
    if path == "/headers":
        names = ["HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_PROTO", "HTTP_HOST", "HTTP_X_REQUEST_START"]
        body = "\n".join(environ.get(name, "-") for name in names).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def pieces():
    for _ in range(10):
        yield b"piece\n"
        time.sleep(0.2)


def events():
    for number in range(200):
        yield f"data: {number}\n\n".encode()
        time.sleep(0.01)
