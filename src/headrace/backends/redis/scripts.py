"""The scripts under `lua/`: read once, joined with the shared parts they name, called by their digest."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files

import msgspec

_REQUIRES = re.compile(r"^-- requires:(.*)$", re.MULTILINE)
_CONTINUES = re.compile(r"^-- continues: (\w+)$", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    """One atomic change. Its header says what it does, its keys, arguments and answers."""

    name: str
    source: bytes
    digest: bytes


def _text(name: str) -> str:
    return files(__package__).joinpath("lua", *f"{name}.lua".split("/")).read_text(encoding="utf-8")


def _script(name: str) -> Script:
    text = _text(name)
    required = _REQUIRES.search(text)
    parts = [_text(f"shared/{part}") for part in required[1].split()] if required else []
    continued = _CONTINUES.search(text)
    rest = [_text(continued[1])] if continued else []
    source = "\n".join([*parts, text, *rest]).encode()
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())


AGAIN = _script("again")
AGE = _script("age")
APPEND = _script("append")
BURY = _script("bury")
CANCEL = _script("cancel")
CLAIM = _script("claim")
CONCLUDE = _script("conclude")
COUNTS = _script("counts")
DISCARD = _script("discard")
ENSURE = _script("ensure")
ESTABLISH = _script("establish")
FINISH = _script("finish")
HASTEN = _script("hasten")
HOLD = _script("hold")
LIST = _script("list")
LOOK = _script("look")
OVERDUE = _script("overdue")
PAUSE = _script("pause")
PROMOTE = _script("promote")
PURGE = _script("purge")
RECOVER = _script("recover")
RENEW = _script("renew")
REPLAY = _script("replay")
REPORT = _script("report")
RETIRE = _script("retire")
REWRITE = _script("rewrite")
SCHEDULE = _script("schedule")
SCHEDULES = _script("schedules")
STARTED = _script("started")
SWEEP = _script("sweep")
TICK = _script("tick")
UNSCHEDULE = _script("unschedule")
UNSEEN = _script("unseen")
UNWATCH = _script("unwatch")
WATCH = _script("watch")
