"""Links between our pages lead somewhere, tables are tables, and command lines name what exists."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import yaml

from headrace.stores.postgres.schema.grants import grants_for
from tests.support.command_lines import unknown_words

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/*.md"),
        *ROOT.glob("benchmarks/*.md"),
    ]
)

_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """A page without its code."""
    text = _FENCE.sub("", path.read_text())
    return re.sub(r"(?m)^    .*$", "", text) if path.name == "redis.md" else text


@cache
def anchors(path: Path) -> set[str]:
    """The names of the headings of a page, as code hosts and the site make them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", each).lower()).strip().replace(" ", "-")
        for each in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in _LINK.findall(prose(page)):
        name, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        path = (page.parent / name).resolve() if name else page
        # Those that begin with a name of Python are on the site alone, which checks them.
        named = not anchor or anchor.startswith("headrace.")
        if not path.exists() or not (named or anchor in anchors(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_rows_of_a_table_have_the_same_number_of_cells(page: Path) -> None:
    for table in re.findall(r"(?:^\|.*\|\n)+", prose(page), re.MULTILINE):
        head, *rows = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert {*rows} <= {head}, table


def command_lines() -> list[tuple[str, str]]:
    """Every `$ headrace …` of our pages, with its page."""
    found = []
    for page in PAGES:
        for _, language, code in _FENCE.findall(page.read_text()):
            if language in ("", "console", "text", "bash"):
                lines = re.findall(r"^\$ (.*\bheadrace .*)$", code, re.MULTILINE)
                found += [(str(page.relative_to(ROOT)), line) for line in lines]
    return found


def test_command_lines_name_what_exists() -> None:
    lines = command_lines()
    assert len(lines) > 50
    unknown = {}
    for page, line in lines:
        for part in re.split(r" [|;&>]+ |\$\(", line.split("  #")[0]):
            if not re.match(r"(\w+=\S+ )*headrace ", part.strip()) or "pip install" in part:
                continue
            words = shlex.split(part.strip().rstrip('")'), posix=True, comments=True)
            words = words[words.index("headrace") + 1 :]
            if wrong := unknown_words(words):
                unknown[page, line] = wrong
    assert not unknown


def test_the_grants_on_the_page_of_postgresql_are_those_that_the_store_needs() -> None:
    page = (ROOT / "docs/concepts/postgresql.md").read_text()
    shown = next(code for _, language, code in _FENCE.findall(page) if language == "sql" and "GRANT" in code)
    statements = {" ".join(statement.split()) for statement in shown.split(";")} - {""}
    assert statements == set(grants_for("headrace", "worker"))


def test_yaml_on_pages_can_be_read() -> None:
    found = 0
    for page in PAGES:
        for _, language, code in _FENCE.findall(page.read_text()):
            if language == "yaml":
                assert yaml.safe_load(code), page
                found += 1
    assert found > 2
