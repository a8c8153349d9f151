"""What a server's error means for us: try again later, or mend the configuration."""

from __future__ import annotations

import re
from typing import Any

from hiredis import ReplyError

from headrace.core.errors import BackendUnavailable, ConfigurationError, HeadraceError

#: Errors of a server that will work again, or on another connection. Before Redis 7 a script's error has text
#: in front of the code that made it fail, so the code is looked for anywhere.
_PASSING = {
    "LOADING": "it is still loading its data",
    "BUSY": "a script of somebody keeps it busy",
    "READONLY": "it is a replica",
    "MASTERDOWN": "its master is down",
    "CLUSTERDOWN": "the cluster is down",
    "TRYAGAIN": "slots are being moved",
    "MISCONF": "it cannot write to its disk and refuses changes",
    "NOREPLICAS": "too few replicas are connected",
    "OOM": "it is out of memory",
    "STALE": "this batch was overtaken by a later one of the same producer",
}
_ACCESS = {
    "NOAUTH": "it wants a password",
    "WRONGPASS": "it refuses user name or password",
    "NOPERM": "the user lacks a permission",
    "ERR invalid password": "it refuses the password",
    "ERR DB index is out of range": "it has no such database",
}
_CODE = re.compile(r"(?<![A-Za-z])-?(" + "|".join(_PASSING) + r")(?![A-Za-z])")

#: Those of them that pass by themselves in a moment, and not only when somebody mends something.
_TRANSIENT = frozenset({"LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"})

#: After these the connection leads to the wrong server, and another may lead to the right one.
_MOVED = ("READONLY", "MASTERDOWN", "LOADING")


def error_of(reply: ReplyError, server: str, *, uncertain: bool = False) -> HeadraceError:
    """The error to raise for an error reply."""
    text = str(reply)
    for code, meaning in _ACCESS.items():
        if text.startswith(code):
            return BackendUnavailable(f"{server} refuses to serve: {meaning} ({text})", uncertain=uncertain)
    match = _CODE.search(text)
    meaning = _PASSING[match[1]] if match else "it answers with an error"
    return BackendUnavailable(
        f"{server} cannot serve now: {meaning} ({text})",
        uncertain=uncertain,
        transient=match is not None and match[1] in _TRANSIENT,
    )


def access_error_of(error: BackendUnavailable) -> ConfigurationError | None:
    """The same error at start, where a refused user is a mistake in the URL."""
    text = str(error)
    if any(f"({code}" in text for code in _ACCESS):
        return ConfigurationError(f"{text}; mend the store's URL or the user's rights")
    return None


def is_error(reply: Any, code: str) -> bool:
    return isinstance(reply, ReplyError) and str(reply).startswith(code)


def leads_elsewhere(reply: Any) -> bool:
    """Whether the connection should be made anew before the next try."""
    return isinstance(reply, ReplyError) and str(reply).startswith(_MOVED)
