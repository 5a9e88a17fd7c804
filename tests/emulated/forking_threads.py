"""A workload of many threads that keep forking, for moving it about."""

FORKING_THREADS = """
import os, sys, threading, time

stop = threading.Event()

def forking():
    # Not all the time: in all they are to fork fast, and each thread is to be there for long.
    while not stop.wait(FORK_EVERY_S):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

threads, forkers = int(sys.argv[1]), int(sys.argv[2])
FORK_EVERY_S = float(sys.argv[3])
for number in range(threads - 1):
    threading.Thread(target=stop.wait if number < threads - 1 - forkers else forking, daemon=True).start()
print("ready", flush=True)
stop.wait()
"""
"""Arguments: threads in all, those that fork, and how often (seconds) each of those does."""
