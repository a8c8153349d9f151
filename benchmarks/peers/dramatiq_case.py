"""Dramatiq's StubBroker with a worker of eight threads, as its own documentation tests with it."""

import json
import logging
import statistics
import sys
import time

import dramatiq
from dramatiq.brokers.stub import StubBroker

scale = float(sys.argv[1])
logging.disable(logging.CRITICAL)
broker = StubBroker()
dramatiq.set_broker(broker)
began_at = {}


@dramatiq.actor
def noop():
    pass


@dramatiq.actor
def stamp(number):
    began_at[number] = time.perf_counter()


figures = {}
number = max(10, int(10_000 * scale))
began = time.perf_counter()
for _ in range(number):
    noop.send()
figures["enqueue one by one"] = number / (time.perf_counter() - began)
worker = dramatiq.Worker(broker, worker_threads=8)
began = time.perf_counter()
worker.start()
broker.join("default")
worker.join()
figures["drain no-op"] = number / (time.perf_counter() - began)
samples = []
for sample in range(max(10, int(300 * scale))):
    began = time.perf_counter()
    stamp.send(sample)
    while sample not in began_at:
        time.sleep(0.0001)
    samples.append((began_at[sample] - began) * 1000)
figures["pick-up p50, ms"] = statistics.median(samples)
worker.stop()
print(json.dumps(figures), flush=True)
