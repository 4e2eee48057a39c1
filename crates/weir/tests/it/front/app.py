"""An app's worker on a unix socket: a thread for each request, answered with the process's number."""

import base64
import hashlib
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
    if head.startswith(b"POST /pieces/"):
        pieces(connection, head.split(b" ")[1].removeprefix(b"/pieces/"))
    if head.startswith(b"GET /cable"):
        cable(connection, head)
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


def pieces(connection, last):
    """A response that ends when there is a file of that name."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nfirst\n")
    while not os.path.exists(last):
        time.sleep(0.01)
    connection.sendall(b"last\n")
    connection.close()
    raise SystemExit


def cable(connection, head):
    """A WebSocket that echoes; of its end it writes down the status that it was given."""
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    key = fields[b"sec-websocket-key"]
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    connection.sendall(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Accept: %s\r\n\r\n" % accept
    )
    stream = connection.makefile("rb")
    while start := stream.read(2):
        mask = stream.read(4)
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(stream.read(start[1] & 0x7F)))
        connection.sendall(bytes([start[0], len(payload)]) + payload)
        if start[0] & 0x0F == 8:
            with open("closed", "a") as closed:
                closed.write("%d\n" % int.from_bytes(payload[:2], "big"))
            break
    connection.close()
    raise SystemExit


grown = []
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
