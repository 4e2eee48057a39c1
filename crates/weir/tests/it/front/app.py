"""An app's worker on a unix socket: a thread for each request, answered with the process's number."""

import os
import resource
import socket
import sys
import threading
import time


def answer(connection):
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(4096)
        if not piece:
            break
        head += piece
    if head.startswith(b"GET /stuck "):
        time.sleep(600)
    if head.startswith(b"GET /slow "):
        time.sleep(1.5)
    if head.startswith(b"GET /until/"):
        name = head.split(b" ")[1].removeprefix(b"/until/")
        while not os.path.exists(name):
            time.sleep(0.01)
    if head.startswith(b"GET /events/"):
        events(connection, head.split(b" ")[1].removeprefix(b"/events/"))
    if head.startswith(b"GET /grow "):
        grown.append(os.urandom(1 << 20) * 100)
    body = b"%d" % os.getpid()
    if head.startswith(b"GET /limits "):
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        space, _ = resource.getrlimit(resource.RLIMIT_AS)
        body = b"%s %d %d" % (os.environb.get(b"SHOP_MODE", b""), files, space)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
    try:
        connection.sendall(answer % (len(body), body))
    except OSError:
        pass
    connection.close()


def events(connection, last):
    """One at once, another when there is a file of that name."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    connection.sendall(b"data: %d\n\n" % os.getpid())
    while not os.path.exists(last):
        time.sleep(0.01)
    connection.sendall(b"data: last\n\n")
    connection.close()
    raise SystemExit


grown = []
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
