"""Loads the scripts under `lua/`: reads them once and joins the shared parts that they name. They are called
by their digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from headrace.core.messages.message import SUSPECT_FROM
from headrace.core.topics.topic import (
    DRAWABLE_BELOW,
    DRAWN_AHEAD,
    KEYS_DEFERRED_MOST,
    LIVE_FOR,
    ORDER_HELD_FOR,
    PARKED_AGAIN,
    PARKED_MOST,
    PARKED_OF_KEY,
    TRIMMED_BESIDE,
    TopicRules,
)

_REQUIRES = re.compile(r"^-- requires:(.*)$", re.MULTILINE)
_CONTINUES = re.compile(r"^-- continues: (\w+)$", re.MULTILINE)
_CALLS = re.compile(r"^-- calls: +(\w+)$", re.MULTILINE)
_OFFERS = re.compile(r"^-- offers: +(.*)$", re.MULTILINE)


class Script(msgspec.Struct, frozen=True):
    """One atomic change. The file's header says what it does, and names its keys, arguments and answers."""

    name: str
    source: bytes
    digest: bytes
    limited: bool = False  # it needs the prefix of limits as its last key


def rules_text(rules: TopicRules) -> str:
    """The rules of a topic in the form that scripts read (lua/shared/topics/trimming.lua)."""
    length = "-" if rules.max_length is None else rules.max_length
    return f"{rules.retention_us} {length} {int(rules.strict)}"


def _scripts_in(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _scripts_in(each)
        else:
            yield each


#: The files by name. A folder says what its scripts are for; the files of `shared` are parts of scripts.
_FILES = {
    script.name.removesuffix(".lua"): script for script in _scripts_in(files(__package__).joinpath("lua"))
}

#: Bounds that all stores share. They come before the shared parts.
_BOUNDS = {
    "queueing": f"local SUSPECT_FROM = {SUSPECT_FROM}\n",
    "ordering": f"local DRAWABLE_BELOW = {DRAWABLE_BELOW}\n",
    "topic": f"""\
local DRAWN_AHEAD, PARKED_MOST, PARKED_OF_KEY = {DRAWN_AHEAD}, {PARKED_MOST}, {PARKED_OF_KEY}
local PARKED_AGAIN, KEYS_DEFERRED_MOST = {PARKED_AGAIN}, {KEYS_DEFERRED_MOST}
local LIVE_FOR, ORDER_HELD_FOR, TRIMMED_BESIDE = {LIVE_FOR}, {ORDER_HELD_FOR}, {TRIMMED_BESIDE}
local RULES = '{rules_text(TopicRules())}'
""",
}


def _text(name: str) -> str:
    text = _BOUNDS.get(name, "") + _FILES[name].read_text(encoding="utf-8")
    offered = " ".join(_OFFERS.findall(text)).split()
    return _in_block(text, offered) if offered else text


def _in_block(text: str, offered: list[str]) -> str:
    """A part that says what it offers keeps its other names to itself: Lua allows a script 200 of them."""
    names = "|".join(offered)
    text = re.sub(rf"^local function ({names})\b", r"function \1", text, flags=re.MULTILINE)
    text = re.sub(rf"^local ((?:(?:{names})(?:, )?)+ =)", r"\1", text, flags=re.MULTILINE)
    return f"local {', '.join(offered)}\ndo\n{text}\nend"


def _script(name: str) -> Script:
    """A script requires its own shared parts, and those of the script that it calls or continues."""
    text = _text(name)
    called = _named(_CALLS, text)
    continued = _named(_CONTINUES, text)
    names = dict.fromkeys(
        part for each in (*called.values(), *continued.values(), text) for part in _required(each)
    )
    functions = (f"local function {each}()\n{source}\nend" for each, source in called.items())
    parts = (_text(part) for part in names)
    return _made(name, list(names), [*parts, *functions, text, *continued.values()])


def _made(name: str, parts: list[str], texts: list[str]) -> Script:
    source = "\n".join(texts).encode()
    digest = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(name, source, digest, limited="limits" in parts)


#: What a script needs for messages with constraints, besides its own parts.
_LIMITED = ("healing", "limits", "lines", "gathering", "slots")


def _limited(settled: str) -> Script:
    """A script that settles, for messages with constraints."""
    text = _text(settled)
    names = [*_required(text), *_LIMITED]
    return _made(f"{settled}_limited", names, [*map(_text, names), text])


def _forwarding(settled: str, *more: str) -> Script:
    """A script that settles, followed by lua/settle/forward.lua, which calls it as the function `settle`."""
    text, called = _text("forward"), _text(settled)
    names = list(dict.fromkeys([*_required(called), *more, *_required(text)]))
    function = f"local function settle()\n{called}\nend"
    return _made("_".join(("forward", settled, *more)), names, [*map(_text, names), function, text])


def _named(header: re.Pattern[str], text: str) -> dict[str, str]:
    """The script that a header names, if there is one, with its text."""
    found = header.search(text)
    return {found[1]: _text(found[1])} if found else {}


def _required(text: str) -> list[str]:
    found = _REQUIRES.search(text)
    return found[1].split() if found else []


RUN_AGAIN = _script("run_again")
TAKE_OUTGOING = _script("take_outgoing")
HAND_ON = _script("hand_on")
BURY_REFUSED = _script("bury_refused")
APPEND = _script("append")
APPEND_ONE = _script("append_one")
APPEND_UNIQUE = _script("append_unique")
APPEND_LIMITED = _script("append_limited")
APPEND_REPLACING = _script("append_replacing")
DECLARE_TOPIC = _script("declare_topic")
BURY = _script("bury")
CANCEL = _script("cancel")
CLEAN = _script("clean")
RELEASE_KEY = _script("release_key")
CLAIM = _script("claim")
CLAIM_LINES = _script("claim_lines")
CONCLUDE = _script("conclude")
COUNTS = _script("counts")
DISCARD = _script("discard")
DRAW = _script("draw")
DECLARE_STREAM = _script("declare_stream")
FIND_EVENT = _script("find_event")
FINISH = _script("finish")
RUN_NOW = _script("run_now")
HOLDERS = _script("holders")
ISSUE_DUE_EVENTS = _script("issue_due_events")
IMPORT_PAGE = _script("import_page")
JOIN = _script("join")
SWAP_LAYOUT = _script("swap_layout")
LIST_MESSAGES = _script("list_messages")
GET = _script("get")
OLDEST_DEAD = _script("oldest_dead")
OVERDUE = _script("overdue")
PAUSE = _script("pause")
PROBE = _script("probe")
PROMOTE = _script("promote")
PUBLISH = _script("publish")
PURGE = _script("purge")
READ_ASIDE = _script("read_aside")
REBASE = _script("rebase")
RECORD_HISTORY = _script("record_history")
RECOVER = _script("recover")
REMOVE_STREAM = _script("remove_stream")
RENEW = _script("renew")
REPLAY = _script("replay")
REPORT_PROGRESS = _script("report_progress")
RESET = _script("reset")
LEAVE = _script("leave")
REWRITE = _script("rewrite")
SCHEDULES = _script("schedules")
SEAL_STORE = _script("seal_store")
SET_FIGURES = _script("set_figures")
SEAL_STREAM = _script("seal_stream")
SET_ASIDE = _script("set_aside")
FIND_POSITION = _script("find_position")
RELEASE_STARTED = _script("release_started")
DESCRIBE_TOPIC = _script("describe_topic")
SWAP_SCHEDULES = _script("swap_schedules")
FORGET_CONSUMERS = _script("forget_consumers")
KEEP_TOPICS = _script("keep_topics")
UNSEEN = _script("unseen")
STOP_WAITING = _script("stop_waiting")
WAIT_FOR_END = _script("wait_for_end")

_SETTLING = (FINISH, RUN_AGAIN, BURY, CONCLUDE)

#: The scripts that settle messages with constraints, by the script that does not know them.
LIMITED = {script: _limited(script.name) for script in _SETTLING}

#: The scripts that settle and forward, by the script that does not forward.
FORWARDING = {script: _forwarding(script.name) for script in _SETTLING}
FORWARDING |= {LIMITED[script]: _forwarding(script.name, *_LIMITED) for script in _SETTLING}
