"""A worker that speaks sd_notify: each argument is a message; it sends the next at each SIGUSR1,
the first at once, and prints a line after each."""

import os
import signal
import socket
import sys

signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for number, message in enumerate(sys.argv[1:], 1):
    notify.sendto(message.encode(), os.environ["NOTIFY_SOCKET"])
    print("sent", number, flush=True)
    signal.sigwait([signal.SIGUSR1])
