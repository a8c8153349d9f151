"""Huey with its consumer in a process of its own: a producer that waits for each task, and a queue that is
otherwise idle. The consumer is as Huey's own command makes it: one thread, its default delays."""

import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time

import huey as library

# A server's URL or, for the worker, the file; what to use; the scale. The worker is this program again.
*given, kind, scale = [argument for argument in sys.argv[1:] if argument != "worker"]
is_worker, scale = "worker" in sys.argv, float(scale)
logging.disable(logging.CRITICAL)
place = given[0] if given else f"{tempfile.mkdtemp()}/huey.db"
if kind == "redis":
    huey = library.RedisHuey(url=place, results=False)
else:
    huey = library.SqliteHuey(filename=place, fsync=kind == "sqlite-fsync", results=False)
samples = []


@huey.task()
def stamp(sent):
    if sent:
        samples.append((time.perf_counter_ns() - sent) / 1e6)


def work():
    consumer = huey.create_consumer(workers=1, worker_type="thread", periodic=False)
    consumer.start()
    print("ready", flush=True)
    sys.stdin.read()
    consumer.stop()
    print(json.dumps(samples), flush=True)


def produce():
    worker = subprocess.Popen(
        [sys.executable, __file__, place, kind, str(scale), "worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    worker.stdout.readline()
    number = max(10, int(3_000 * scale))
    began = time.perf_counter()
    for _ in range(number):
        stamp(0)
    rate = number / (time.perf_counter() - began)
    while len(huey):
        time.sleep(0.01)
    time.sleep(1)
    for _ in range(max(10, int((300 if kind == "redis" else 60) * scale))):
        time.sleep(0.02)
        stamp(time.perf_counter_ns())
        while len(huey):
            time.sleep(0.001)
    time.sleep(1)
    out, _ = worker.communicate(timeout=30)
    cuts = statistics.quantiles(json.loads(out), n=100)
    print(json.dumps({"enqueue one by one": rate, "pick-up p50, ms": cuts[49], "pick-up p99, ms": cuts[98]}))


work() if is_worker else produce()
