"""What the Tab key offers: commands, apps, tasks, queues and topics."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import get_completion_class

from headrace import App, Job
from headrace.cli.main import cli
from headrace.cli.target import completion
from headrace.core.messages.ids import new_id
from headrace.core.messages.message import Batch, Message, Stream
from headrace.stores import open_store
from tests.unit.cli.conftest import Shell


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """What bash gets for a line with the cursor at its end."""

    def offered(line: str) -> list[str]:
        monkeypatch.setenv("COMP_WORDS", line)
        kind = get_completion_class("bash")
        assert kind is not None
        answer = kind(cli, {}, "headrace", "_HEADRACE_COMPLETE").complete()
        return [each.partition(",")[2] for each in answer.splitlines()]

    return offered


Offered = Callable[[str], list[str]]


def test_commands_and_the_commands_of_a_group(url: str, offered: Offered) -> None:
    assert offered("headrace wor") == ["worker", "workers"]
    assert offered("headrace dead ") == ["list", "show", "replay", "discard"]
    assert offered("headrace dead --reas") == ["--reason"]


def test_apps_are_found_without_an_import(url: str, offered: Offered) -> None:
    Path("shop.py").write_text("raise SystemExit\napp = App()\nother: App = headrace.App(\n  local = App()\n")
    Path("package").mkdir()
    Path("package/__init__.py").write_text("jobs = App('memory://')\n")
    assert offered("headrace worker ") == ["package:jobs", "shop:app", "shop:other"]
    assert offered("headrace status shop:a") == ["shop:app"]
    assert offered("headrace dead r") == ["replay"]
    assert offered("headrace dead sh") == ["show", "shop:app", "shop:other"]


def test_tasks_by_their_whole_names_or_by_the_last_parts(app: App, offered: Offered) -> None:
    assert set(offered("headrace enqueue shop:app ")) == set(app.tasks)
    assert offered("headrace enqueue shop:app shop.ad") == ["shop.add"]
    assert offered("headrace enqueue shop:app ad") == ["add"]
    assert offered("headrace jobs shop:app --task shop.ad") == ["shop.add"]


def test_queues_of_the_app_and_of_the_store(
    app: App, enqueue: Callable[..., Job[Any]], offered: Offered
) -> None:
    enqueue("shop.add", 1, 2, queue="mails")
    enqueue("shop.add", 1, 2, queue="newsletter")
    assert offered("headrace pause shop:app n") == ["newsletter"]
    assert offered("headrace jobs shop:app --queue def") == ["default"]
    assert offered("headrace worker shop:app --queues default,n") == ["default,newsletter"]
    assert offered(f"headrace pause --url {app.url} n") == ["newsletter"]
    assert offered("headrace publish shop:app or") == ["orders"]


async def test_names_of_a_tampered_store_that_no_client_may_give_are_not_offered(
    url: str, offered: Offered
) -> None:
    """They would steer the terminal, or end the answer and begin another one."""
    store = open_store(url)
    await store.open()
    for place in ("mails", "evil\x1b[31m", "evil\nplain,--yes", "evil $(id)"):
        for kind in ("queue", "topic"):
            await store.append(Batch(Stream(kind, place), "p", 1, [Message(new_id(), "t", b"")]))
    await store.close()
    assert await asyncio.to_thread(offered, f"headrace pause --url {url} ") == ["default", "mails"]
    assert await asyncio.to_thread(offered, f"headrace tail --url {url} ") == ["mails"]


def test_no_file_is_made_and_no_error_is_shown(
    url: str, offered: Offered, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("broken.py").write_text("print('loud')\nraise ValueError('no')\n")
    before = set(Path().iterdir())
    assert offered("headrace enqueue broken:app ") == []
    assert offered("headrace pause no_such_module:app ") == []
    assert offered(f"headrace pause --url {url} x") == []
    assert {path for path in Path().iterdir() if path.suffix == ".db"} <= before
    assert capfd.readouterr() == ("", "")


def test_a_module_that_takes_long_is_not_waited_for(
    url: str, offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "LONGEST", 0.05)
    Path("slow.py").write_text("import threading\nthreading.Event().wait(60)\n")
    began = time.monotonic()
    assert offered("headrace enqueue slow:app ") == []
    assert time.monotonic() - began < 30


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_completes_what_follows_a_colon(url: str, headrace: Shell) -> None:
    Path("shop.py").write_text("app = App()\n")
    script = headrace("completion", "bash").stdout
    Path("headrace").write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace "$@"\n')
    Path("headrace").chmod(0o755)
    typed = "COMP_LINE='headrace worker shop:a'; COMP_POINT=${#COMP_LINE}; "
    program = f'{script}\n{typed}_headrace_completion ./headrace; echo "${{COMPREPLY[@]}}"'
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert (found.stdout, found.stderr) == ("app\n", "")


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish here")
def test_fish_completes_what_follows_a_comma(url: str, headrace: Shell) -> None:
    Path("headrace").write_text("#!/bin/sh\nprintf 'plain,mails,reports\\tTwo queues, in a list\\n'\n")
    Path("headrace").chmod(0o755)
    Path("headrace.fish").write_text(headrace("completion", "fish").stdout)
    program = "set PATH . $PATH; source headrace.fish; complete -C 'headrace worker --queues mails,'"
    found = subprocess.run(["fish", "-c", program], capture_output=True, text=True, timeout=50, check=True)
    assert found.stdout == "mails,reports\tTwo queues, in a list\n"
