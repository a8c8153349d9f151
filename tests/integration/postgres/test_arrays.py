"""Lists arrive at the server as they were sent."""

from __future__ import annotations

import pytest

from headrace.stores.postgres.address import PostgresAddress
from headrace.stores.postgres.session.connection import PostgresConnection
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("kind", "sent"),
    [
        ("text", ["a", "", 'q"{},\\', "ä€😀", "null", None]),
        ("text", ["same", "size"]),
        ("text", []),
        ("text", [None, None]),
        ("bytea", [b"\x00\xff", b"", None]),
        ("bigint", [0, -1, 2**63 - 1, -(2**63)]),
        ("integer", [7, None]),
        ("boolean", [True, False, None]),
        ("float8", [0.5, -1e300, None]),
    ],
)
async def test_a_list_arrives_as_it_was_sent(server: PostgresServer, kind: str, sent: list[object]) -> None:
    connection = await PostgresConnection.open(PostgresAddress.parse(server.url))
    try:
        assert await connection.rows(f"SELECT $1::{kind}[]", (sent,)) == [(sent,)]
    finally:
        await connection.close()
