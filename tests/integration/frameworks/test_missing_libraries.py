"""An integration whose library is not installed names the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, *others):
        if name == {library!r}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing())
import headrace.{library}
"""


@pytest.mark.parametrize("library", ["fastapi", "flask", "starlette"])
def test_a_missing_library_is_named_with_its_extra(library: str) -> None:
    program = WITHOUT.format(library=library)
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "ConfigurationError" in found.stderr.splitlines()[-1]
    assert f"pip install 'headrace[{library}]'" in found.stderr.splitlines()[-1]
