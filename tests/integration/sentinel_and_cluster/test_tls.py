"""`rediss+sentinel://` and `rediss+cluster://`: every connection is made with TLS, that to a sentinel too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.redis_connections.test_tls import works
from tests.integration.support.certificates import Authority
from tests.support.server_groups import BUS, MASTER, SLOTS, Node, Sentinel
from tests.support.servers import HOST, PORTS, free_port, require
from tests.support.waiting import wait_until

#: Debian's is the one that is built with TLS.
KIND = "redis-7.0"


class Secrecy:
    """Certificates, and the settings with which servers speak TLS on a port beside the plain one."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "certificates")
        certificate, key = authority.sign("server", host="localhost", address=HOST)
        self.option = f"ssl_ca_certs={authority.certificate}"
        self._settings = {
            "tls-cert-file": str(certificate),
            "tls-key-file": str(key),
            "tls-ca-cert-file": str(authority.certificate),
            "tls-auth-clients": "no",
            "tls-replication": "yes",
        }

    def settings(self, port: int) -> dict[str, str]:
        return {"tls-port": str(port), **self._settings}

    def words(self, port: int) -> list[str]:
        return [word for name, value in self.settings(port).items() for word in (f"--{name}", value)]


def new_port() -> int:
    return free_port(range(PORTS.start - BUS, PORTS.stop - BUS), beside=BUS)


@pytest.mark.more
async def test_sentinels_and_their_primary_are_asked_with_tls(tmp_path: Path) -> None:
    secrecy, at_primary, at_sentinel = Secrecy(tmp_path), new_port(), new_port()
    primary = Node(require(KIND), directory=tmp_path / "server", arguments=secrecy.words(at_primary))
    sentinel = Sentinel(
        require(KIND),
        directory=tmp_path / "sentinel",
        watched=lambda: at_primary,
        settings=secrecy.settings(at_sentinel),
    )
    with primary, sentinel:
        await works(f"rediss+sentinel://{HOST}:{at_sentinel}/{MASTER}/1?{secrecy.option}")


@pytest.mark.more
async def test_the_nodes_of_a_cluster_are_asked_with_tls(tmp_path: Path) -> None:
    secrecy, port = Secrecy(tmp_path), new_port()
    arguments = [*secrecy.words(port), "--cluster-enabled", "yes", "--tls-cluster", "yes"]
    with Node(require(KIND), directory=tmp_path / "node", arguments=arguments) as node:
        node.command("CLUSTER", "ADDSLOTS", *range(SLOTS))
        await wait_until(lambda: "cluster_state:ok" in str(node.command("CLUSTER", "INFO")))
        await works(f"rediss+cluster://{HOST}:{port}?{secrecy.option}")
