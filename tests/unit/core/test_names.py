"""Names of queues and tasks."""

from __future__ import annotations

import pytest

from headrace import ConfigurationError
from headrace.core.values.names import checked_name


@pytest.mark.parametrize("name", ["default", "a", "shop.mails:send-all_2", "x" * 200, "7"])
def test_letters_digits_and_four_characters_are_allowed(name: str) -> None:
    assert checked_name("queue", name) == name


@pytest.mark.parametrize("name", ["", "two words", "{tag}", "x" * 201, "grüße", "a/b", "a\n", None, 7])
def test_anything_else_is_refused_and_named(name: object) -> None:
    with pytest.raises(ConfigurationError, match=r"queue name .* is not allowed") as refused:
        checked_name("queue", name)
    assert repr(name) in str(refused.value)
