"""The guide's examples are tests: each is quoted from tests/guide, word for word."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "guides" / "testing.md"
TESTS = ROOT / "tests" / "guide" / "test_testing_your_own_code.py"


def test_every_example_is_quoted_from_a_test() -> None:
    examples = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(examples) > 8
    written = TESTS.read_text()
    assert [example for example in examples if example not in written] == []
