"""`manage.py headrace`: the command line of headrace for the project."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import call_command

from .conftest import PROJECT

pytestmark = pytest.mark.timeout(120)


class Project:
    """The shop on a SQLite store of its own, asked by processes."""

    def __init__(self, folder: Path) -> None:
        self.variables = {
            **os.environ,
            "SHOP_FOLDER": str(folder),
            "SHOP_STORE": f"sqlite:///{folder}/jobs.db",
            "PYTHONPATH": os.pathsep.join([str(PROJECT), str(folder), *_asked_for()]),
            "DJANGO_SETTINGS_MODULE": "django_shop.settings",
        }

    def manage(self, *words: str) -> str:
        return self.run("manage.py", *words)

    def python(self, text: str) -> str:
        return self.run("-c", f"import django; django.setup(); {text}")

    def run(self, *words: str, code: int = 0) -> str:
        command = [sys.executable, *words]
        ended = subprocess.run(
            command,
            cwd=PROJECT,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def on_a_terminal(self, *words: str) -> str:
        ours, theirs = os.openpty()
        command = [sys.executable, *words]
        with subprocess.Popen(
            command, cwd=PROJECT, env=self.variables, stdin=theirs, stdout=theirs, stderr=theirs
        ) as running:
            os.close(theirs)
            output = b""
            with contextlib.suppress(OSError):  # the terminal is gone when the program has ended
                while read := os.read(ours, 65536):
                    output += read
            os.close(ours)
            assert running.wait(100) == 0, output
        return output.decode()


def _asked_for() -> list[str]:
    return [path for path in [os.environ.get("PYTHONPATH")] if path]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_worker_finds_the_tasks_of_installed_apps_and_serves_their_queues(project: Project) -> None:
    id = project.python(
        "from django_shop.tasks import add, mail; mail.enqueue(7); print(add.enqueue(2, 3).id)"
    ).strip()
    output = project.manage("headrace", "worker", "--burst")
    assert "app     headrace.django.project:default, " in output
    assert "queues  default, mails" in output
    assert (
        project.python(f"from django_shop.tasks import add; print(add.get_result('{id}').return_value)")
        == "5\n"
    )
    assert "mails" in (status := project.manage("headrace", "status"))
    assert "no worker is running; start one with: manage.py headrace worker\n" in status
    assert "django_shop.tasks.add" in project.manage("headrace", "jobs", "show", id)
    assert "all is well" in project.manage("headrace", "doctor")


@pytest.mark.more
def test_several_processes_set_django_up(project: Project) -> None:
    project.python("from django_shop.tasks import add; [add.enqueue(n, n) for n in range(5)]")
    assert "worker process 2 started" in project.manage("headrace", "worker", "--burst", "--processes", "2")
    left = project.python(
        "from headrace.django import get_app; print(get_app().sync.admin.queues()[0].queued)"
    )
    assert left == "0\n"


def test_a_worker_without_manage_py(project: Project) -> None:
    project.python("from django_shop.tasks import add; add.enqueue(1, 2)")
    output = project.run("-m", "headrace", "worker", "headrace.django.project:default", "--burst")
    assert "headrace.django.project:default" in output


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_a_task_has_one_line_and_other_lines_of_django_are_written_once(
    project: Project, tmp_path: Path
) -> None:
    (tmp_path / "debugged.py").write_text(
        "from django_shop.settings import *\n"
        "DEBUG, LOGGING_CONFIG, LOGGING = True, 'logging.config.dictConfig', {}\n"
    )
    project.variables["DJANGO_SETTINGS_MODULE"] = "debugged"
    project.python(
        "from django_shop.tasks import add; add.enqueue(2, 3);"
        "from django_shop.tasks import warn; warn.enqueue()"
    )
    output = project.on_a_terminal("manage.py", "headrace", "worker", "--burst")
    assert output.count("disk is nearly full") == 1
    assert output.count("django_shop.tasks.add") == 1


def test_commands_that_take_the_app_have_that_of_the_project(project: Project) -> None:
    id = project.manage("headrace", "enqueue", "django_shop.tasks.add", "[2, 3]").strip()
    assert "queued" in project.manage("headrace", "jobs", "show", id)
    assert "worker" in project.manage("headrace", "worker", "--help")


def test_a_wrong_backend_or_command_is_said(project: Project) -> None:
    output = project.run("manage.py", "headrace", "--backend", "others", "status", code=1)
    assert "CommandError: The connection 'others' doesn't exist." in output
    assert "No such command" in project.run("manage.py", "headrace", "works", code=2)


def test_code_calls_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("headrace", "version")
    assert "headrace" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        call_command("headrace", "nothing")
