"""Says whether others on the network can read what a connection carries."""

from __future__ import annotations

import logging
from typing import Any, Final

from psycopg import AsyncConnection

from headrace.core.records.findings import Finding, Level, ok, warn
from headrace.core.runtime.hosts import is_this_machine

#: What TLS does not verify in each mode of libpq; in all others, it is the certificate.
GAPS: Final = {b"verify-full": "", b"verify-ca": "the host name in the certificate"}

logger = logging.getLogger("headrace")

_warned: set[str] = set()


def connection_finding(raw: AsyncConnection[Any]) -> Finding:
    host = raw.info.host
    if host.startswith(("/", "@")):
        return ok("connection", "a socket of this machine")
    if raw.pgconn.ssl_in_use:
        return _tls_finding(raw)
    if is_this_machine(host) or is_this_machine(raw.info.hostaddr):
        return ok("connection", "plain text, within this machine")
    return warn(
        "connection",
        f"without TLS over the network to {host}: a listener on the network reads passwords and jobs",
        "add sslmode=verify-full to the URL, with TLS on the server, or use a tunnel",
    )


def warn_of_plain_text(raw: AsyncConnection[Any], description: str) -> None:
    """Log it once in a process. The doctor says whether TLS is verified: by default libpq does not."""
    finding = connection_finding(raw)
    if finding.level is Level.OK or raw.pgconn.ssl_in_use or description in _warned:
        return
    _warned.add(description)
    text, extra = f"({finding.name}): {finding.text}; {finding.remedy}", {"finding": finding.name}
    logger.warning("%s %s", description, text, extra=extra)


def _tls_finding(raw: AsyncConnection[Any]) -> Finding:
    mode = next((option.val for option in raw.pgconn.info if option.keyword == b"sslmode"), None)
    gap = GAPS.get(mode or b"", "the certificate")
    if not gap:
        return ok("connection", "TLS; certificate and host name are verified")
    return warn(
        "connection",
        f"TLS, but {gap} is not verified: a machine in between can read and change everything",
        "add sslmode=verify-full to the URL; sslrootcert names an authority",
    )
