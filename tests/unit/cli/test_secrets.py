"""The command line takes secrets, and shows none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from headrace import App

from .conftest import Shell

WORD = "swordfish"


def test_a_plain_value_is_taken_for_one_and_masked_from_then_on(app: App, url: str, headrace: Shell) -> None:
    id = headrace("enqueue", "shop:app", "types.login", f'["ada", "{WORD}"]').stdout.strip()
    assert headrace.json("jobs", "show", "shop:app", id)["args"] == ["ada", "***"]
    for store in (["shop:app"], ["--url", url]):
        text = headrace("jobs", "show", *store, id).stdout
        assert '"***"' in text
        assert WORD not in text


@pytest.mark.parametrize("arguments", ['["ada", 7]', '{"user": "ada", "password": ["swordfish"]}'])
def test_one_of_the_wrong_type_is_not_quoted(app: App, headrace: Shell, arguments: str) -> None:
    result = headrace("enqueue", "shop:app", "types.login", arguments)
    assert result.exit_code != 0
    assert "The value of a Secret is no `str` - at `password`" in result.output
    assert WORD not in result.output


def test_a_result_that_is_one_is_masked(
    app: App, url: str, headrace: Shell, working: Callable[[], AbstractContextManager[None]]
) -> None:
    with working():
        shown = headrace("enqueue", "shop:app", "types.login", f'["ada", "{WORD}"]', "--wait")
    assert shown.exit_code == 0, shown.output
    [info] = app.sync.admin.jobs("default")
    for output in (
        shown.output,
        headrace("jobs", "show", "shop:app", info.id).output,
        headrace("jobs", "show", "--url", url, info.id).output,
    ):
        assert WORD not in output
        assert "***" in output


def test_a_dependency_is_not_asked_for(app: App, headrace: Shell) -> None:
    result = headrace("enqueue", "shop:app", "types.login", '{"user": "a", "password": "b", "greeting": "c"}')
    assert result.exit_code != 0
    assert "unexpected keyword argument 'greeting'" in result.output
    assert "greeting:" not in result.output
