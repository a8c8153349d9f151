"""Runs tests and rounds on a source, and says which of them fail."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from pathlib import Path
from xml.etree import ElementTree

import msgspec

from .mutated_tree import ROOT, environment, source_with
from .seeded_bug import Round, SeededBug

#: Seconds for all tests of one bug, and for one round.
TESTS_MOST, ROUND_MOST = 600.0, 300.0

#: The lease of a round, in seconds: a busy machine must not look like a bug.
LEASE = "2"

#: The plugins of pytest that these tests need. To load all that are installed takes as long as many a test.
PLUGINS = ("anyio", "pytest_timeout", "_hypothesis_pytestplugin", "headrace.testing.plugin")

#: An error that begins with or contains one of these shows that the mutated code does not work at all. That
#: proves nothing about a test.
_BROKEN_CODE = re.compile(
    r"^(ImportError|ModuleNotFoundError|SyntaxError|IndentationError|NameError|collection failure)"
    r"|Error compiling script|user_script:\d+: (attempt to|bad argument|Script attempted)"
)


class Verdict(Enum):
    PASSED = "passed"
    CAUGHT = "caught"
    SKIPPED = "skipped"
    BROKEN = "the code does not run"


class Catch(msgspec.Struct, frozen=True):
    """What one test or round says of a source."""

    name: str
    verdict: Verdict
    why: str = ""  # the error, or the rules that are broken


class Caught(msgspec.Struct, frozen=True):
    """What all tests and rounds of a bug say."""

    name: str
    bug: SeededBug
    catches: list[Catch]
    seconds: float

    @property
    def by(self) -> list[Catch]:
        """What catches it, each once: a test may fail and then leave something behind as well."""
        found = {catch.name: catch for catch in reversed(self.catches) if catch.verdict is Verdict.CAUGHT}
        return list(reversed(found.values()))

    @property
    def is_caught(self) -> bool:
        """Whether the bug is caught by a test or a rule, and its code runs."""
        return bool(self.by) and not any(catch.verdict is Verdict.BROKEN for catch in self.catches)


def hunt(name: str, bug: SeededBug, *, rounds: bool = True) -> Caught:
    """Run what must catch the bug. Rounds may be left out: they take longer."""
    began = time.monotonic()
    with source_with(bug) as source:
        catches = run_tests(source, bug.tests) if bug.tests else []
        for each in bug.rounds if rounds else ():
            catches.append(run_round(source, each))
    return Caught(name, bug, catches, time.monotonic() - began)


def failing_unmutated(bugs: Collection[SeededBug], *, rounds: bool) -> list[Catch]:
    """What fails, or is not run, on the code as it is. It could catch nothing."""
    tests = sorted({test for bug in bugs for test in bug.tests})
    chosen = {round for bug in bugs for round in bug.rounds} if rounds else ()
    with source_with(None) as source:
        catches = run_tests(source, tests) if tests else []
        catches += [run_round(source, each) for each in chosen]
    return [catch for catch in catches if catch.verdict is not Verdict.PASSED]


def run_tests(source: Path, tests: Sequence[str], *, more: bool = True) -> list[Catch]:
    """Run tests by their names; with `more` also those of `make test-more`."""
    with tempfile.TemporaryDirectory(prefix="seeded-report-") as folder:
        report = Path(folder) / "report.xml"
        plugins = [word for name in PLUGINS for word in ("-p", name)]
        options = ("-q", *plugins, "-p", "no:cacheprovider", f"--junitxml={report}", "-o", "junit_logging=no")
        marked = ("-m", "") if more else ()
        printed = _output("pytest", *options, *marked, *tests, source=source, timeout=TESTS_MOST)
        if not report.exists():
            return [Catch("pytest", Verdict.BROKEN, printed[-2000:])]
        return list(_catches(report))


def run_round(source: Path, round: Round) -> Catch:
    """Run a round of the torture harness. Broken rules catch the bug."""
    choices = ("--stores", round.store, "--workloads", round.workload, "--faults", round.faults)
    with tempfile.TemporaryDirectory(prefix="seeded-round-") as folder:
        more = ("--seed", round.seed, "--lease", LEASE, "--folder", folder)
        printed = _output("tests.torture", *choices, *more, source=source, timeout=ROUND_MOST)
    rules = dict(re.findall(r"^BROKEN (\w+): (\d+)$", printed, re.MULTILINE))
    if rules.pop("unfinished", None) or "rules of the checker that were broken" not in printed:
        return Catch(str(round), Verdict.BROKEN, printed[-2000:])
    verdict = Verdict.CAUGHT if rules else Verdict.PASSED
    return Catch(str(round), verdict, ", ".join(rules))


def _output(module: str, *words: str, source: Path, timeout: float) -> str:
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *words],
            cwd=ROOT,
            env={**environment(source), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{module} did not end within {timeout:g} s"
    return done.stdout


def _catches(report: Path) -> Iterator[Catch]:
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{_node(case.get('classname', ''))}::{case.get('name')}"
        faults = [*case.findall("failure"), *case.findall("error")]
        if faults:
            yield Catch(name, *_judged(faults))
        else:
            skipped = case.find("skipped") is not None
            yield Catch(name, Verdict.SKIPPED if skipped else Verdict.PASSED)


def _node(classname: str) -> str:
    """As pytest names it: `tests.unit.test_a.TestB` is `tests/unit/test_a.py::TestB`."""
    folder, words = "", classname.split(".")
    while words and (ROOT / folder / words[0]).is_dir():
        folder = f"{folder}{words.pop(0)}/"
    return folder + "::".join([f"{word}.py" if at == 0 else word for at, word in enumerate(words)])


def _judged(faults: list[ElementTree.Element]) -> tuple[Verdict, str]:
    texts = [f"{fault.get('message') or ''}\n{fault.text or ''}" for fault in faults]
    verdict = Verdict.BROKEN if any(map(_BROKEN_CODE.search, texts)) else Verdict.CAUGHT
    return verdict, texts[0].partition("\n")[0]
