"""Each library that the code imports is declared, and none is declared that it does not import."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

#: Distributions whose package has another name.
PACKAGES = {"opentelemetry-api": "opentelemetry"}

#: Used where the program of a user has it.
OF_USERS = {"pydantic", "pydantic_core"}

#: Read by `zoneinfo`, and a plugin of pytest.
NOT_IMPORTED = {"tzdata", "anyio"}


def test_what_is_imported_is_what_is_declared() -> None:
    assert imported() - OF_USERS == declared() - NOT_IMPORTED


def test_a_bare_install_has_what_every_program_needs() -> None:
    assert packages(PROJECT["dependencies"]) == {"apsw", "click", "cronsim", "msgspec", "rich", "tzdata"}


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"]
    return packages(PROJECT["dependencies"]).union(*map(packages, extras.values()))


def packages(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^\w-]", each)[0] for each in requirements} - {"headrace"}
    return {PACKAGES.get(name, name).replace("-", "_") for name in names}


def imported() -> set[str]:
    found = set()
    for path in (ROOT / "src/headrace").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    found |= {name.name.partition(".")[0] for name in names}
                case ast.ImportFrom(level=0, module=str(module)):
                    found.add(module.partition(".")[0])
    return found - sys.stdlib_module_names - {"headrace"}
