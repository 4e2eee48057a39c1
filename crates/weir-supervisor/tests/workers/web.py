"""A web worker: answers each connection with its pid. SIGTERM: it ends the present request first.

Arguments: fd NUMBER | unix PATH | port NUMBER; then: seconds of work per request (default 0).
"""

import os
import select
import signal
import socket
import sys
import time


def listener(kind, value):
    if kind == "fd":
        return socket.socket(fileno=int(value))
    if kind == "unix":
        made = socket.socket(socket.AF_UNIX)
        made.bind(value)
    else:
        made = socket.socket()
        made.bind(("127.0.0.1", int(value)))
    made.listen(16)
    return made


def serve(listening, wake, work):
    while True:
        readable, _, _ = select.select([listening, wake], [], [])
        if wake in readable:
            return
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            continue  # a sibling was faster
        with connection:
            connection.setblocking(True)
            connection.recv(1)
            time.sleep(work)
            connection.sendall(b"%d\n" % os.getpid())


wake, wake_writer = os.pipe()
os.set_blocking(wake_writer, False)
signal.set_wakeup_fd(wake_writer)
signal.signal(signal.SIGTERM, lambda *_: None)
listening = listener(sys.argv[1], sys.argv[2])
listening.setblocking(False)
print("listening", flush=True)
serve(listening, wake, float(sys.argv[3]) if len(sys.argv) > 3 else 0)
