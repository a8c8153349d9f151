"""The rights that are asked for are those that the scripts and the backend use."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.stores.redis import scripts
from headrace.stores.redis.health.permissions import COMMANDS, rules_for

#: Names of commands that a script chooses at run time are in quotes all the same.
CALL = re.compile(r"\bp?call\('([A-Z]+)'(?:, '([A-Z]+)')?")
CHOSEN = re.compile(r"'(Z[A-Z]+|X[A-Z]+)'")
WITH_SUBCOMMANDS = ("XGROUP", "XINFO")


def texts() -> list[str]:
    folder = Path(scripts.__file__).parent / "lua"
    # `headrace move` needs one more right: see docs/guides/move.md.
    parts = [part for part in folder.rglob("*.lua") if part.parent.name != "moving"]
    return [part.read_text() for part in parts if part.name != "probe.lua"]


def used() -> set[str]:
    names = set()
    for text in texts():
        for command, word in CALL.findall(text):
            names.add(f"{command}|{word}" if command in WITH_SUBCOMMANDS else command)
        names |= {name for name in CHOSEN.findall(text) if name not in WITH_SUBCOMMANDS}
    return {name.lower() for name in names}


def test_every_command_of_the_scripts_is_among_the_rights() -> None:
    assert used() - set(COMMANDS) == set()


def test_every_command_of_the_scripts_is_probed() -> None:
    probe = scripts.PROBE.source.decode()
    tried = {
        f"{first}|{second}".lower() if first in WITH_SUBCOMMANDS else first.lower()
        for first, second in re.findall(r"\{ '([A-Z]+)'(?:, '?(\w+)'?)?", probe)
    }
    assert used() - tried == set()


def test_the_rules_name_the_namespace() -> None:
    assert rules_for("shop").startswith("resetkeys ~shop:* ~{shop:* resetchannels &shop:* +evalsha ")
