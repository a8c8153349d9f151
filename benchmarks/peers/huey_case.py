"""Huey on SQLite or in memory, its consumer in this process with threads, as its own tests run it: with one,
which is its default, or with several, which for jobs that do nothing are in each other's way."""

import json
import logging
import statistics
import sys
import tempfile
import threading
import time

from huey import MemoryHuey, SqliteHuey

kind, threads, scale = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
logging.disable(logging.CRITICAL)
folder = tempfile.mkdtemp()
if kind == "memory":
    huey = MemoryHuey(results=False)
else:
    huey = SqliteHuey(filename=f"{folder}/huey.db", fsync=kind == "sqlite-fsync", results=False)

done = 0
lock = threading.Lock()
began_at = {}


@huey.task()
def noop():
    global done
    with lock:
        done += 1


@huey.task()
def stamp(number):
    began_at[number] = time.perf_counter()


def wait_for(condition):
    while not condition():
        time.sleep(0.001)


figures = {}
number = max(10, int(3_000 * scale))
began = time.perf_counter()
for _ in range(number):
    noop()
figures["enqueue one by one"] = number / (time.perf_counter() - began)
huey.flush()

# In memory as many as ours has: while its threads are being started the first has the interpreter for itself.
number = max(10, int((50_000 if kind == "memory" else 10_000) * scale))
began = time.perf_counter()
for _ in range(number):
    noop()
figures["enqueue_many"] = number / (time.perf_counter() - began)

consumer = huey.create_consumer(workers=threads, worker_type="thread", periodic=False)
began = time.perf_counter()
consumer.start()
wait_for(lambda: done >= number)
figures["drain no-op"] = number / (time.perf_counter() - began)

samples = []
for sample in range(max(10, int(60 * scale))):
    time.sleep(0.05)  # an idle queue
    began = time.perf_counter()
    stamp(sample)
    wait_for(lambda sample=sample: sample in began_at)
    samples.append((began_at[sample] - began) * 1000)
figures["pick-up p50, ms"] = statistics.median(samples)
consumer.stop()
print(json.dumps(figures), flush=True)
