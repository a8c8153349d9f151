"""Every seeded bug still applies, and is caught. `make test` tries a few, `make test-more` all of them."""

from __future__ import annotations

import pytest

from tests.support.servers import FIRST_KIND, Fleet
from tests.torture.faults import all_faults
from tests.torture.rounds import workload_names

from .catching import failing_unmutated, hunt
from .mutated_tree import ROOT, SOURCE
from .seeded_bug import CONTRACT, PatchDoesNotApply, SeededBug, all_bugs

BUGS = all_bugs()

#: Caught within seconds by tests without a server.
QUICK = (
    "answer_of_another_assignment_accepted",
    "bytes_change_sides_in_a_signature",
    "crash_limit_one_too_high",
    "replaced_timeout_strikes",
    "unique_key_released_at_the_claim",
)


@pytest.fixture(params=BUGS)
def bug(request: pytest.FixtureRequest) -> SeededBug:
    return BUGS[request.param]


def test_there_are_at_least_forty() -> None:
    assert len(BUGS) >= 40


def test_every_bug_names_tests_or_rounds_that_exist(bug: SeededBug) -> None:
    assert bug.tests or bug.rounds
    for name in bug.tests:
        where, _, test = name.partition("[")[0].rpartition("::")
        assert f"def {test}(" in _text_of(where), f"there is no {name}"
    for each in bug.rounds:
        assert each.workload in workload_names()
        assert each.faults in all_faults()


def _text_of(where: str) -> str:
    """The file with a test: one of the tests, or of the contract suite."""
    if not where.startswith(CONTRACT):
        return (ROOT / where).read_text()
    [file] = (SOURCE / "headrace/testing/contract").rglob(f"{where.removeprefix(CONTRACT)}.py")
    return file.read_text()


def test_every_bug_applies_and_its_code_compiles(bug: SeededBug, servers: Fleet) -> None:
    text = (SOURCE / "headrace" / bug.file).read_text()
    mutated = bug.applied(text)
    assert mutated != text
    if bug.file.endswith(".lua"):
        servers.get(FIRST_KIND).command("SCRIPT", "LOAD", mutated)
    else:
        compile(mutated, bug.file, "exec")


def test_a_bug_whose_lines_are_gone_is_an_error() -> None:
    bug = SeededBug(file="a.py", why="", before="    x = 1\n    y = 2", after="x = 2")
    assert bug.applied("def f():\n        x = 1\n        y = 2\n") == "def f():\n        x = 2\n"
    for other in ("x = 1\n", "xx = 1\ny = 2\n", "x = 1\n  y = 2\n", "x = 1\ny = 2\nx = 1\ny = 2\n"):
        with pytest.raises(PatchDoesNotApply):
            bug.applied(other)


@pytest.mark.parametrize("name", QUICK)
def test_a_seeded_bug_is_caught(name: str) -> None:
    result = hunt(name, BUGS[name], rounds=False)
    assert result.is_caught, result.catches


@pytest.mark.more
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", BUGS)
def test_every_seeded_bug_is_caught(name: str) -> None:
    result = hunt(name, BUGS[name])
    assert result.is_caught, result.catches


@pytest.mark.more
@pytest.mark.timeout(1800)
def test_what_catches_them_passes_on_the_code_as_it_is() -> None:
    assert failing_unmutated(BUGS.values(), rounds=True) == []
