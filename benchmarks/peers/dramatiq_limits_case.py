"""The ConcurrentRateLimiter of Dramatiq. A job that finds no place fails and is retried: soon, so that it is
seen at its best. The worker has eight threads, its default."""

import json
import logging
import sys
import threading
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend
from limited_case import AMOUNTS, FIGURES, MANY, NOT_REACHED, ONE, PLAIN

url, scale = sys.argv[1], float(sys.argv[2])
logging.disable(logging.CRITICAL)
broker = RedisBroker(url=url)
dramatiq.set_broker(broker)
backend = RedisBackend(url=url)
never = ConcurrentRateLimiter(backend, "never", limit=MANY)
mutex = ConcurrentRateLimiter(backend, "mutex", limit=1)
lock = threading.Lock()
done = 0


def count():
    global done
    with lock:
        done += 1


@dramatiq.actor(queue_name=PLAIN)
def plain():
    count()


@dramatiq.actor(queue_name=NOT_REACHED)
def not_reached():
    with never.acquire():
        count()


@dramatiq.actor(queue_name=ONE, max_retries=None, min_backoff=10, max_backoff=100)
def one():
    with mutex.acquire():
        time.sleep(0.001)
        count()


figures = {}
for kind, actor in {PLAIN: plain, NOT_REACHED: not_reached, ONE: one}.items():
    number, done = max(20, round(AMOUNTS[kind] * scale)), 0
    for _ in range(number):
        actor.send()
    worker = dramatiq.Worker(broker, queues={kind}, worker_threads=8)
    began = time.perf_counter()
    worker.start()
    while done < number:
        time.sleep(0.002)
    figures[FIGURES[kind]] = number / (time.perf_counter() - began)
    worker.stop()
print(json.dumps(figures), flush=True)
