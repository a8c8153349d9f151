"""Dramatiq on Redis: a worker of eight threads, its default, in this process. Producers are threads, too."""

import json
import logging
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import dramatiq
from dramatiq.brokers.redis import RedisBroker

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
broker = RedisBroker(url=url)
dramatiq.set_broker(broker)
began_at = {}
done = 0
lock = threading.Lock()


@dramatiq.actor
def noop():
    global done
    with lock:
        done += 1


@dramatiq.actor
def stamp(number):
    began_at[number] = time.perf_counter()


def send(number):
    for _ in range(number):
        noop.send()


def timed(function, *args):
    began = time.perf_counter()
    function(*args)
    return time.perf_counter() - began


def send_from_threads(each):
    with ThreadPoolExecutor(100) as pool:
        list(pool.map(send, [each] * 100))


figures = {}
send(1)
number, each, many = max(10, int(1_000 * scale)), max(2, int(20 * scale)), max(100, int(5_000 * scale))
figures["enqueue one by one"] = number / timed(send, number)
figures["enqueue, 100 coroutines"] = 100 * each / timed(send_from_threads, each)
figures["enqueue_many"] = many / timed(send, many)

total = 1 + number + 100 * each + many
worker = dramatiq.Worker(broker, worker_threads=8)
began = time.perf_counter()
worker.start()
while done < total:
    time.sleep(0.002)
figures["drain no-op"] = total / (time.perf_counter() - began)

samples = []
for sample in range(max(10, int(60 * scale))):
    time.sleep(0.02)  # an idle queue
    began = time.perf_counter()
    stamp.send(sample)
    while sample not in began_at:
        time.sleep(0.0001)
    samples.append((began_at[sample] - began) * 1000)
figures["pick-up p50, ms"] = statistics.median(samples)
worker.stop()
print(json.dumps(figures), flush=True)
