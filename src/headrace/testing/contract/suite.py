"""How pytest collects the suite: as if its modules stood in the test module that imports it.

The folders of the suite are not part of a test's name: `test_contract.py::suite::test_append` runs the tests
of `queues/test_append.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

import pytest

PACKAGE = "headrace.testing.contract"


class Suite:
    """What a test module imports. `headrace.testing.plugin` has pytest collect it."""

    def collector(self, parent: pytest.Collector, name: str) -> pytest.Collector:
        """A node with all tests. They see the fixtures of `parent`, and its hooks are called for them."""
        node: SuiteNode = SuiteNode.from_parent(
            parent, name=name, path=parent.path, nodeid=f"{parent.nodeid}::{name}"
        )
        node.add_marker(pytest.mark.anyio)
        return node


class SuiteModule(pytest.Module):
    """A module of the suite, called by the last part of its name."""

    def _getobj(self) -> ModuleType:
        return _copy(_test_modules()[self.name])


class SuiteNode(pytest.Module):
    """The fixtures of the suite, and below it the modules with its tests."""

    def _getobj(self) -> ModuleType:
        return _copy(f"{PACKAGE}.kit.fixtures")

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        yield from super().collect()
        for name in _test_modules():
            yield SuiteModule.from_parent(self, name=name, path=self.path, nodeid=f"{self.nodeid}::{name}")


@cache
def _test_modules() -> dict[str, str]:
    """The full names of the modules with tests, by the last part of each. No two may have the same."""
    found = [module.name for module in walk_packages(import_module(PACKAGE).__path__, f"{PACKAGE}.")]
    names = [(full.rpartition(".")[2], full) for full in found]
    return {name: full for name, full in names if name.startswith("test_")}


def _copy(name: str) -> ModuleType:
    """A copy of a module, since pytest reads the fixtures of each once, and the suite may be there twice."""
    module = import_module(name)
    copy = ModuleType(module.__name__, module.__doc__)
    vars(copy).update(vars(module))
    return copy
