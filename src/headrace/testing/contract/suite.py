"""How pytest collects the suite: as if its modules stood in the test module that imports it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pkgutil import iter_modules
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
        return _copy(self.name)


class SuiteNode(pytest.Module):
    """The fixtures of the suite, and below it the modules with its tests."""

    def _getobj(self) -> ModuleType:
        return _copy("fixtures")

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        yield from super().collect()
        names = [module.name for module in iter_modules(import_module(PACKAGE).__path__)]
        for name in names:
            if name.startswith("test_"):
                yield SuiteModule.from_parent(
                    self, name=name, path=self.path, nodeid=f"{self.nodeid}::{name}"
                )


def _copy(name: str) -> ModuleType:
    """A copy of a module, since pytest reads the fixtures of each once, and the suite may be there twice."""
    module = import_module(f"{PACKAGE}.{name}")
    copy = ModuleType(module.__name__, module.__doc__)
    vars(copy).update(vars(module))
    return copy
