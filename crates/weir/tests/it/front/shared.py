"""An app's worker, one request at a time, on inherited sockets or on a unix socket.

`shared.py EXAMPLES WORD [SOCKET]`: the folder of the adapters, and whether it keeps its busy word. It notes in the file
`asked` what it is asked for, and as which host.
"""

import os
import select
import signal
import socket
import sys
import time

sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import weir_busy

word = weir_busy.BusyWord.of_this_worker() if sys.argv[2] == "keeps" else None
is_ending, waker = [], os.pipe()


def end(*_):
    is_ending.append(True)
    os.write(waker[1], b"x")


def listeners():
    if len(sys.argv) > 3:
        own = socket.socket(socket.AF_UNIX)
        own.bind(sys.argv[3])
        own.listen(64)
        return [own]
    return [socket.socket(fileno=3 + number) for number in range(int(os.environ["LISTEN_FDS"]))]


def serve(connection):
    connection.setblocking(True)
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(4096)
        if not piece:
            return
        head += piece
    token = word.begin() if word else None
    path = head.split(b" ")[1].decode()
    host = head.lower().split(b"host: ")[1].split(b"\r")[0].decode()
    with open("asked", "a") as asked:
        asked.write(f"{os.getpid()} {path} {host}\n")
    if path.startswith("/until/"):
        while not os.path.exists(path.removeprefix("/until/")):
            time.sleep(0.005)
    body = b"%d" % os.getpid()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s"
    try:
        connection.sendall(answer % (len(body), body))
    except OSError:
        pass
    if word:
        word.end(token)


signal.signal(signal.SIGTERM, end)
doors = listeners()
for door in doors:
    door.setblocking(False)
while not is_ending:
    for ready in select.select([waker[0], *doors], [], [])[0]:
        if ready == waker[0]:
            break
        try:
            connection, _ = ready.accept()
        except BlockingIOError:
            continue
        serve(connection)
        connection.close()
        # The one who has waited longest may be at another socket.
        break
