"""DBOS: a queue of asynchronous workflows, a hundred at a time; it has no call for many."""

import asyncio
import sys
import time

from dbos import DBOS, DBOSClient
from postgres_case import PostgresPeer
from producing_case import run

url, scale = sys.argv[1], float(sys.argv[2])
place = url.replace("postgresql://", "postgresql+psycopg://")
config = {"name": "bench", "system_database_url": place, "run_admin_server": False, "log_level": "CRITICAL"}


class Dbos(PostgresPeer):
    async def open(self):
        DBOS(config=config)
        await asyncio.to_thread(DBOS.launch)
        await asyncio.to_thread(DBOS.destroy, destroy_registry=False)
        self._client = DBOSClient(system_database_url=place)

    async def close(self):
        await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=1)

    def _options(self, name):
        return {"queue_name": "bench", "workflow_name": name}

    async def send(self):
        await self._client.enqueue_async(self._options("noop"))

    async def send_nap(self):
        await self._client.enqueue_async(self._options("nap"))

    async def send_stamp(self, number):
        await self._client.enqueue_async(self._options("stamp"), number)

    async def work(self):
        DBOS(config=config)
        await asyncio.to_thread(DBOS.launch)
        await DBOS.register_queue_async("bench", worker_concurrency=100, polling_interval_sec=0.1)
        await asyncio.Event().wait()


peer = Dbos(url)


@DBOS.workflow(name="noop")
async def noop():
    peer.done += 1


@DBOS.workflow(name="nap")
async def nap():
    await asyncio.sleep(0.001)
    peer.done += 1


@DBOS.workflow(name="stamp")
async def stamp(number):
    peer.began_at[number] = time.perf_counter()


run(peer, scale / 5)
