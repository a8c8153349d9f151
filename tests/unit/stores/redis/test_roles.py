"""The rights of each role are those that its verbs can come to use: no more, and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.stores.redis import scripts
from headrace.stores.redis.health.permissions import ROLES, Role, rules_for

#: The scripts that the verbs of a role run.
PRODUCED = (
    *("APPEND", "APPEND_ONE", "APPEND_UNIQUE", "APPEND_LIMITED", "DECLARE_TOPIC", "PUBLISH"),
    *("CANCEL", "WAIT_FOR_END", "STOP_WAITING", "GET"),
    # A process that finds an unfinished change of a layout finishes it.
    *("HOLDERS", "SWAP_LAYOUT", "PAUSE", "COUNTS", "DESCRIBE_TOPIC"),
)
READ = (
    "COUNTS",
    "HOLDERS",
    "LIST_MESSAGES",
    "GET",
    "DESCRIBE_TOPIC",
    "SCHEDULES",
    "FIND_POSITION",
    "FIND_EVENT",
)
WORKED = (
    *PRODUCED,
    *(
        "RUN_AGAIN",
        "BURY",
        "CLAIM",
        "CLAIM_LINES",
        "CONCLUDE",
        "DRAW",
        "DECLARE_STREAM",
        "FINISH",
        "ISSUE_DUE_EVENTS",
        "JOIN",
    ),
    *(
        "OVERDUE",
        "PROMOTE",
        "REBASE",
        "RECOVER",
        "RENEW",
        "REPORT_PROGRESS",
        "LEAVE",
        "SCHEDULES",
        "FIND_POSITION",
        "FIND_EVENT",
        "RELEASE_STARTED",
    ),
    *("SWAP_SCHEDULES", "FORGET_CONSUMERS", "KEEP_TOPICS", "UNSEEN", "REMOVE_STREAM", "SET_FIGURES"),
)

#: What is sent without a script.
CONNECTED = {"evalsha", "script|load", "subscribe", "ping", "select", "time"}
ROLES_USE: dict[Role, tuple[tuple[str, ...], set[str]]] = {
    "reader": (READ, CONNECTED | {"hvals", "scan", "smembers", "xread", "hgetall", "xrange", "hget"}),
    "producer": (PRODUCED, CONNECTED | {"sadd", "smembers", "set", "wait", "waitaof", "hget"}),
    "worker": (
        WORKED,
        CONNECTED
        | {"sadd", "smembers", "wait", "waitaof", "hincrby", "expire", "xread", "xreadgroup"}
        | {"hdel", "hgetall", "hlen", "hmget", "hset", "xrange", "hget", "set", "srem"},
    ),
}

FUNCTION = re.compile(r"^(?:local )?function (\w+)\(.*?^end$", re.MULTILINE | re.DOTALL)
#: What is only tried (`pcall`) may be denied, but for reads of streams that may be missing.
CALL = re.compile(r"\bcall\('([A-Z]+)'(?:, '([A-Z]+)')?|\bpcall\('(X[A-Z]+)'(?:, '([A-Z]+)')?")
CHOSEN = re.compile(r"'(Z[A-Z]+|X[A-Z]+)'")
WITH_SUBCOMMANDS = ("XGROUP", "XINFO")


def commands_of(name: str) -> set[str]:
    """The commands that a script can come to call: its own, and those of the functions that it can reach."""
    text = re.sub(r"--[^\n]*", "", getattr(scripts, name).source.decode())
    functions = {match[1]: match[0] for match in FUNCTION.finditer(text)}
    todo, found = [FUNCTION.sub("", text)], set[str]()
    while todo:
        part = todo.pop()
        found |= _commands_in(part)
        for reached in [each for each in functions if re.search(rf"\b{each}\b", part)]:
            todo.append(functions.pop(reached))
    return found


def _commands_in(text: str) -> set[str]:
    found = {name for name in CHOSEN.findall(text) if name not in WITH_SUBCOMMANDS}
    for words in CALL.findall(text):
        command, word = words[0] or words[2], words[1] or words[3]
        found.add(f"{command}|{word}" if command in WITH_SUBCOMMANDS else command)
    return {name.lower() for name in found}


@pytest.mark.parametrize("role", ROLES_USE)
def test_a_role_has_the_rights_that_it_uses_and_no_others(role: Role) -> None:
    names, sent = ROLES_USE[role]
    used = sent.union(*map(commands_of, names))
    assert set(ROLES[role]) == used
    assert len(ROLES[role]) == len(set(ROLES[role]))


def test_a_role_is_part_of_everything() -> None:
    for role, commands in ROLES.items():
        assert set(commands) <= set(ROLES["everything"]), role


def test_the_documentation_has_the_same_rights() -> None:
    text = (Path(__file__).parents[4] / "docs/concepts/redis.md").read_text()
    rights = text[text.index("### Rights") : text.index("### Durability")]
    web, worker, reader = re.findall(r"    ACL SETUSER (?:.|\n)*?\n\n", rights)
    documented: dict[Role, set[str]] = {
        "producer": _granted(web),
        "worker": _granted(web) | _granted(worker),
        "reader": _granted(reader),
        "everything": _granted(web) | _granted(worker) | _granted(reader),
    }
    for role, rules in documented.items():
        assert rules == _granted(rules_for("headrace", role)), role


def _granted(rules: str) -> set[str]:
    return {word for word in rules.split() if word.startswith("+")}


def test_the_rules_are_for_one_namespace_and_one_role() -> None:
    rules = rules_for("shop", "reader")
    assert rules.startswith("resetkeys ~shop:* ~{shop:* resetchannels &shop:* +evalsha ")
    assert "+xadd" not in rules
    assert "+waitaof" not in rules_for("shop", "producer")
