"""headrace.testing.contract, as the author of a store uses it: a fixture and an import."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

DESCRIBES = "test_contract.py::suite::test_lifecycle::test_a_store_describes_itself"

CONFTEST = """
    import pytest
    from headrace.stores import open_store
    from headrace.testing.contract import StoreUnderTest

    @pytest.fixture({params})
    def store_under_test({request}):
        def create(namespace, clock):
            return open_store(f"memory://{{namespace}}", clock=clock)

        return StoreUnderTest(create, name="memory", parts={parts})
"""


def run(pytester: pytest.Pytester, *words: str, parts: str = "1", params: str = "") -> pytest.RunResult:
    request = "request" if params else ""
    pytester.makeconftest(CONFTEST.format(params=params, parts=parts, request=request))
    pytester.makepyfile(test_contract="from headrace.testing.contract import suite")
    return pytester.runpytest_subprocess("-p", "no:asyncio", "-p", "no:cacheprovider", "-q", *words)


def test_a_fixture_and_an_import_run_the_suite(pytester: pytest.Pytester) -> None:
    outcomes = run(pytester, "test_contract.py::suite::test_lifecycle").parseoutcomes()
    assert outcomes.keys() == {"passed"}
    assert outcomes["passed"] > 5


def test_what_does_not_hold_for_parts_is_skipped_there(pytester: pytest.Pytester) -> None:
    modules = [f"test_contract.py::suite::{module}" for module in ("test_state_machine", "test_traffic")]
    outcomes = run(pytester, *modules, parts="request.param", params="params=[3]").parseoutcomes()
    assert outcomes.keys() == {"passed", "skipped"}
    assert outcomes["skipped"] == 2  # few examples, and many


def test_a_failed_assertion_shows_the_values(pytester: pytest.Pytester) -> None:
    conftest = CONFTEST.replace('name="memory"', 'name="paper"').format(params="", parts="1", request="")
    pytester.makeconftest(conftest)
    pytester.makepyfile(test_contract="from headrace.testing.contract import suite")
    result = pytester.runpytest_subprocess("-p", "no:asyncio", "-q", DESCRIBES)
    result.stdout.fnmatch_lines(["*assert 'paper' in 'memory (*"])


def test_what_it_needs_is_named_when_it_is_missing() -> None:
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import importlib.util as util; util.find_spec = lambda name: None if name == 'hypothesis' else 1\n"
        "import headrace.testing.contract"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "needs hypothesis" in found.stderr
    assert "pip install 'headrace[testing]'" in found.stderr
