"""A peer on PostgreSQL. Statements are counted in the same way for all, over a connection of psycopg."""

import asyncio
import os

import psycopg
from producing_case import Peer

COUNT = """
SELECT coalesce(sum(calls), 0) FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %s)
"""


class PostgresPeer(Peer):
    naps = True

    def __init__(self, url):
        super().__init__()
        self.url = url
        # The looking itself is done in another database, so it is not counted.
        self._looking = os.environ["BENCH_LOOKING"]
        self._name = url.rsplit("/", 1)[1]

    async def statements(self):
        return await asyncio.to_thread(self._count)

    def _count(self):
        with psycopg.connect(self._looking, autocommit=True) as connection:
            return int(connection.execute(COUNT, (self._name,)).fetchone()[0])
