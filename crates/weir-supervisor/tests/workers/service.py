"""A service process: says that it is ready, and writes what the parent reports into a file."""

import os
import sys

descriptors = dict(entry.split("=") for entry in os.environ["WEIR_DESCRIPTORS"].split(","))
os.write(int(descriptors["status"]), b"ready\n")
with open(int(descriptors["control"])) as control, open(sys.argv[1], "a") as log:
    print("service", os.getpid(), file=log, flush=True)
    for line in control:
        print(line, end="", file=log, flush=True)
