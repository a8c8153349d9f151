"""What `import headrace` loads. A program that only enqueues starts fast when this is little."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Packages that the bare import may load, beside the standard library.
NEEDED = {"headrace", "msgspec", "cronsim", "typing_extensions"}

#: Parts of headrace that are loaded when they are asked for: stores, and what only workers and commands need.
LATER = (
    "headrace.cli",
    "headrace.dashboard",
    "headrace.engine.worker.build",
    "headrace.engine.running.executor",
    "headrace.observability.prometheus",
    "headrace.stores.memory",
    "headrace.stores.postgres",
    "headrace.stores.redis",
    "headrace.stores.sqlite",
    "headrace.testing",
)


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    # -S: packages that are installed may load modules at every start of Python (*.pth files).
    code = "import sys; before = set(sys.modules); sys.path[:0] = sys.argv[1:]; import headrace; "
    code += "print(*(set(sys.modules) - before))"
    command = [sys.executable, "-S", "-c", code, *filter(None, sys.path)]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_import_loads_no_package_that_it_does_not_need(loaded: set[str]) -> None:
    packages = {name.partition(".")[0] for name in loaded}
    generated = {name for name in packages if name.startswith("_sysconfigdata")}
    assert packages - sys.stdlib_module_names - generated <= NEEDED


def test_stores_and_the_parts_of_a_worker_are_loaded_later(loaded: set[str]) -> None:
    assert [name for name in loaded if name.startswith(LATER)] == []


def test_the_number_of_modules_stays_small(loaded: set[str]) -> None:
    # Each takes about a quarter of a millisecond: 230 of headrace and as many others are about 100 ms.
    assert len([name for name in loaded if name.partition(".")[0] == "headrace"]) <= 235
    assert len(loaded) <= 450
