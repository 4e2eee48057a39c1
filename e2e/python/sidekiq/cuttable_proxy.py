"""A way to a Redis that can stop forwarding, as a network that is divided."""

import contextlib
import selectors
import socket
import threading


class CuttableProxy:
    """Forwards from a socket of its own to that of a Redis. While it is cut, connections stay open, but silent."""

    def __init__(self, redis, folder):
        self.path, self._upstream = f"{folder}/cut.sock", redis.path
        self._is_open, self._is_over = threading.Event(), threading.Event()
        self._is_open.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._threads = []
        self._start(self._accept)

    def cut(self):
        self._is_open.clear()

    def heal(self):
        self._is_open.set()

    def stop(self):
        self._is_over.set()
        self._is_open.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, run, *arguments):
        self._threads.append(threading.Thread(target=run, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self):
        self._listener.settimeout(0.1)
        while not self._is_over.is_set():
            with contextlib.suppress(TimeoutError):
                self._start(self._forward, self._listener.accept()[0])

    def _forward(self, client):
        server = socket.socket(socket.AF_UNIX)
        with client, server, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            # Also a connection of the time of the cut reaches Redis only after it.
            self._is_open.wait()
            server.connect(self._upstream)
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while not self._is_over.is_set():
                for key, _ in ready.select(0.1):
                    self._is_open.wait()
                    if self._is_over.is_set() or not (piece := key.fileobj.recv(65_536)):
                        return
                    key.data.sendall(piece)
