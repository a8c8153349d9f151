"""What a worker or producer is called: host, process, and a nonce that no earlier one had."""

from __future__ import annotations

import os
import re
import secrets
import socket


def host_name() -> str:
    """This machine's name, in characters that are safe in any store."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:40] or "host"


def new_identity() -> str:
    """A name for one life of one worker or producer."""
    return f"{host_name()}:{os.getpid()}:{secrets.token_hex(4)}"
