"""Passwords and TLS: libpq's own rules, and `credentials=`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from headrace import App, BackendUnavailable
from headrace.core.errors import ConfigurationError
from headrace.core.messages.ids import new_id
from headrace.core.records.answers import Answer
from headrace.stores import open_store
from headrace.stores.postgres.schema.grants import grants_for
from tests.integration.support.certificates import Authority
from tests.integration.support.postgres_steps import batch, execute, opened
from tests.support.postgres_server import HOST, NOBODY, PostgresServer

pytestmark = pytest.mark.anyio

ROLE: Final = "guarded"
PASSWORD: Final = "pw-first"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server with TLS, and a role that must give its password."""
    with PostgresServer() as server:
        authority = Authority(tmp_path_factory.mktemp("authority"))
        certificate, key = authority.sign("server", address=HOST)
        data = server.folder / "data"
        for source, name in ((certificate, "server.crt"), (key, "server.key"), (authority.certificate, "ca")):
            own(data / name, source.read_text())
        rules = (data / "pg_hba.conf").read_text()
        own(data / "pg_hba.conf", f"host all {ROLE} all scram-sha-256\n{rules}")
        asyncio.run(prepare(server))
        yield server


def own(path: Path, text: str) -> None:
    """Write a file that only the server's user may read."""
    path.write_text(text)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)


async def prepare(server: PostgresServer) -> None:
    async with opened(server.url):
        pass
    await execute(server, "ALTER SYSTEM SET ssl = on")
    await execute(server, "SELECT pg_reload_conf()")
    await execute(server, f"CREATE ROLE {ROLE} LOGIN; {'; '.join(grants_for('headrace', ROLE))}")


@pytest.fixture
async def server(guarded: PostgresServer) -> PostgresServer:
    await execute(guarded, f"ALTER ROLE {ROLE} PASSWORD '{PASSWORD}'")
    return guarded


async def test_a_password_is_in_no_log_and_no_error(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"postgresql://{ROLE}:pw-wrong@{HOST}:{server.port}/postgres"
    with pytest.raises(BackendUnavailable, match="refuses the login") as caught:
        await open_store(url).open()
    assert "pw-" not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"
    async with opened(url.replace("pw-wrong", PASSWORD)) as store:
        assert "pw-" not in f"{store!r} {store.description} {store._address!r}"
        assert await store.append(batch("job")) == [Answer("job")]
    assert "pw-" not in caplog.text


async def test_the_password_file_is_used(server: PostgresServer, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{HOST}:{server.port}:*:{ROLE}:{PASSWORD}\n")
    passwords.chmod(0o600)
    async with opened(f"{server.url_as(ROLE)}?passfile={passwords}") as store:
        assert await store.append(batch("job")) == [Answer("job")]


async def test_a_service_is_looked_up(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    lines = f"host={HOST}\nport={server.port}\ndbname=postgres\nuser={ROLE}\npassword={PASSWORD}\n"
    services.write_text(f"[shop]\n{lines}")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    async with opened("postgresql://?service=shop") as store:
        assert await store.append(batch("job")) == [Answer("job")]


async def test_the_certificate_of_the_server_is_checked(server: PostgresServer, tmp_path: Path) -> None:
    own_authority = tmp_path / "ca.crt"
    own_authority.write_text((server.folder / "data" / "ca").read_text())
    async with opened(f"{server.url}?sslmode=verify-full&sslrootcert={own_authority}") as store:
        sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        assert await store._read(lambda connection: connection.rows(sql)) == [(True,)]
    other = Authority(tmp_path / "other").certificate
    with pytest.raises(BackendUnavailable, match="SSL error"):
        await open_store(f"{server.url}?sslmode=verify-full&sslrootcert={other}").open()


@pytest.mark.parametrize(
    ("host", "options", "level", "text"),
    [
        (HOST, "sslmode=verify-full&sslrootcert={ca}", "ok", "TLS; certificate and host name are verified"),
        (
            HOST,
            "sslmode=verify-ca&sslrootcert={ca}",
            "warn",
            "TLS, but the host name in the certificate is not",
        ),
        (HOST, "sslmode=require", "warn", "TLS, but the certificate is not verified"),
        (HOST, "sslmode=disable", "ok", "plain text, within this machine"),
        ("0.0.0.0", "sslmode=disable", "warn", "without TLS over the network to 0.0.0.0: a listener"),
    ],
)
async def test_whether_others_can_listen_is_a_finding(
    server: PostgresServer,
    caplog: pytest.LogCaptureFixture,
    host: str,
    options: str,
    level: str,
    text: str,
    tmp_path: Path,
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text((server.folder / "data" / "ca").read_text())
    url = f"{server.url.replace(HOST, host)}?{options.format(ca=authority)}"
    for _ in range(2):
        async with opened(url) as store:
            [found] = [each for each in await store.examine() if each.name == "connection"]
    assert (found.level, found.text[: len(text)]) == (level, text)
    assert caplog.text.count("without TLS over the network") == (1 if host != HOST else 0)


async def test_credentials_are_asked_for_each_connection(server: PostgresServer) -> None:
    password = PASSWORD
    app = App(server.url_as(ROLE), namespace=new_id(), credentials=lambda: (None, password))

    @app.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    async with app, app.worker(lease=2):
        assert await (await double.enqueue(1)).result(timeout=30) == 2
        await execute(server, f"ALTER ROLE {ROLE} PASSWORD 'pw-later'")
        await execute(
            server, f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"
        )
        waiting = asyncio.create_task(double.enqueue(2))
        password = "pw-later"
        assert await (await waiting).result(timeout=30) == 4


async def test_credentials_that_fail_are_an_error_that_may_pass(server: PostgresServer) -> None:
    def fail() -> tuple[str, str]:
        raise RuntimeError("the vault is sealed")

    store = open_store(server.url_as(ROLE), credentials=fail)
    with pytest.raises(BackendUnavailable, match="the vault is sealed") as caught:
        await store.open()
    assert caught.value.transient


async def test_a_password_that_is_refused_may_be_about_to_change(server: PostgresServer) -> None:
    store = open_store(server.url, credentials=lambda: (ROLE, "pw-wrong"))
    with pytest.raises(BackendUnavailable, match="refuses the login") as caught:
        await store.open()
    assert caught.value.transient
    assert "pw-" not in str(caught.value)


def test_a_url_with_a_password_takes_no_credentials() -> None:
    with pytest.raises(ConfigurationError, match="credentials="):
        open_store("postgresql://ada:sesame@db/shop", credentials=lambda: (None, "sesame"))
