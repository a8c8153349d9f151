"""Makes the names of workers and producers: host, process, and a nonce that no earlier name had."""

from __future__ import annotations

import os
import re
import secrets
import socket


def host_name() -> str:
    """This machine's name, in characters that are safe in any store."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:40] or "host"


def new_identity() -> str:
    """A new name for a worker or producer, for one run of it."""
    return f"{host_name()}:{os.getpid()}:{secrets.token_hex(4)}"
