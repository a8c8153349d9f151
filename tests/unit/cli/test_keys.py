"""`headrace keys`, and what the command line shows of signed and encrypted messages."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from headrace import App, EncryptedCodec, SignedCodec
from headrace.core.crypto.keys import new_key

from .conftest import Shell

KEY = new_key()


def test_a_new_key_can_be_used_at_once(headrace: Shell) -> None:
    first, second = headrace("keys", "new"), headrace("keys", "new")
    assert first.exit_code == 0
    assert first.stdout != second.stdout
    SignedCodec([first.stdout, second.stdout])
    EncryptedCodec(first.stdout)


def test_how_to_use_it_is_told_beside_it(headrace: Shell) -> None:
    result = headrace("keys", "new")
    assert result.stdout.count("\n") == 1
    assert 'codec=EncryptedCodec(os.environ["HEADRACE_KEYS"])' in result.stderr
    assert result.stdout.strip() not in result.stderr


@pytest.mark.parametrize(
    ("make", "form"), [(SignedCodec, "signed"), (EncryptedCodec, "encrypted")], ids=["signed", "encrypted"]
)
def test_jobs_are_shown_as_far_as_they_can_be_read(
    make: Any, form: str, url: str, headrace: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App(url, codec=make(KEY))

    @app.task(name="shop.echo")
    async def echo(text: str) -> str:
        return text

    module: Any = ModuleType("safe")
    module.app = app
    monkeypatch.setitem(sys.modules, "safe", module)
    done = app.sync.enqueue(echo.call("hello"))
    headrace("worker", "safe:app", "--burst")
    waiting = app.sync.enqueue(echo.with_(headers={"by": "ada"}).call("hello"))
    try:
        assert headrace.json("jobs", "show", "safe:app", waiting.id)["args"] == ["hello"]
        assert headrace.json("jobs", "show", "safe:app", done.id)["result"] == "hello"
        seen = headrace.json("jobs", "show", "--url", url, waiting.id)
        assert (seen["args"], seen["headers"]) == (None, {"by": "ada"})
        assert f"it is {form}, and no codec is known here" in seen["problem"]
        seen = headrace.json("jobs", "show", "--url", url, done.id)
        assert "result" not in seen
        assert f"is {form}, and no codec is known here" in seen["result_problem"]
        for job in (waiting, done):
            assert f"is {form}, and no codec" in " ".join(
                headrace("jobs", "show", "--url", url, job.id).stdout.split()
            )
    finally:
        app.sync.close()
