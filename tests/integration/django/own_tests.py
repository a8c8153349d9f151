"""Runs Django's own tests of task backends against headrace: `python own_tests.py FOLDER`.

FOLDER has the folder `tasks` of the tests in Django's source distribution. Its modules are changed on their
way into a temporary folder: their backends are those below, and for Django 5.2 the names are those of
`django-tasks`. This file is a program, because it runs under the Python that has the Django to test.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import django
from django.conf import settings

OF_DJANGO_6 = django.VERSION >= (6, 0)

#: The tests that say nothing about a backend such as this one, with the reason.
LEFT_OUT = {
    "test_custom_backend.*": "about a backend that this module defines itself",
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result": "changes the list of the dummy",
    "test_dummy_backend.DummyBackendTestCase.test_refresh_result_async": "changes the list of the dummy",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_get_result": "headrace has results",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_refresh_result": "headrace has results",
    "test_immediate_backend.ImmediateBackendTestCase.test_cannot_pass_run_after": "headrace has run_after",
    "test_immediate_backend.ImmediateBackendTestCase.test_throws_keyboard_interrupt": (
        "the task runs in a worker, so Ctrl-C in the calling process does not reach it"
    ),
}

REPLACED = {
    r"django\.tasks\.backends\.dummy\.DummyBackend": "own_tests.Waiting",
    r"django\.tasks\.backends\.immediate\.ImmediateBackend": "own_tests.Working",
    r"from django\.tasks\.backends\.dummy import": "from own_tests import Waiting as",
    r"from django\.tasks\.backends\.immediate import": "from own_tests import Working as",
}

#: The names of `django-tasks`.
RENAMED = {
    r"django\.tasks\b": "django_tasks",
    r"\bInvalidTask\b": "InvalidTaskError",
    r"\bInvalidTaskBackend\b": "InvalidTaskBackendError",
    r"async Tasks\.": "async tasks.",
}


def prepared(source: Path, target: Path) -> None:
    """The tests, with our backends."""
    target.mkdir()
    replaced = REPLACED if OF_DJANGO_6 else {**REPLACED, **RENAMED}
    for path in source.glob("*.py"):
        text = path.read_text()
        for pattern, new in replaced.items():
            text = re.sub(pattern, new, text)
        (target / path.name).write_text(text)


def configured(folder: Path) -> None:
    os.environ["HEADRACE_URL"] = f"sqlite:///{folder}/jobs.db"
    settings.configure(
        INSTALLED_APPS=["headrace.django", *([] if OF_DJANGO_6 else ["django_tasks"])],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / "site.db")}},
        TASKS={"default": {"BACKEND": "headrace.django.Backend", "QUEUES": []}},
        LOGGING_CONFIG=None,
        USE_TZ=True,
    )
    django.setup()


def suite() -> tuple[unittest.TestSuite, list[str]]:
    """What applies to a backend such as this one, and the names of the other tests."""
    chosen, left_out = unittest.TestSuite(), []
    matched = set()
    for test in flat(unittest.defaultTestLoader.discover("tasks", top_level_dir=".")):
        name = test.id().removeprefix("tasks.")
        reason = next((each for each in LEFT_OUT if re.fullmatch(each.replace(".*", "[.].*"), name)), None)
        if reason is None:
            chosen.addTest(test)
        else:
            matched.add(reason)
            left_out.append(name)
    assert matched == set(LEFT_OUT), f"no such tests: {set(LEFT_OUT) - matched}"
    return chosen, left_out


def flat(tests: unittest.TestSuite) -> list[unittest.TestCase]:
    found: list[unittest.TestCase] = []
    for test in tests:
        found += flat(test) if isinstance(test, unittest.TestSuite) else [test]
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared(Path(sys.argv[1]), folder / "tasks")
        sys.path[:0] = [str(folder), str(Path(__file__).parent)]
        os.chdir(folder)
        configured(folder)
        from django.test.runner import DiscoverRunner

        tests, left_out = suite()
        runner = DiscoverRunner(verbosity=1, interactive=False)
        runner.setup_test_environment()
        outcome = runner.run_suite(tests)
    failed = [test.id() for test, _ in outcome.failures + outcome.errors]
    summary: dict[str, Any] = {
        "django": django.get_version(),
        "ran": outcome.testsRun,
        "failed": failed,
        "left_out": len(left_out),
    }
    print(json.dumps(summary))
    sys.stdout.flush()
    os._exit(bool(failed))


# --- the backends -----------------------------------------------------------------------------------------

if __name__ != "__main__":  # Django is set up, and the tests import this module
    from headrace import App
    from headrace.django import Backend, get_app

    class Waiting(Backend):  # in place of Django's dummy, which runs nothing
        @property
        def results(self) -> list[Any]:
            """The results of all jobs in the store, the first one first."""
            jobs = [
                job for queue in self.app.sync.admin.queues() for job in self.app.sync.admin.jobs(queue.name)
            ]
            return [self.get_result(id) for id in sorted(job.id for job in jobs)]

        def clear(self) -> None:
            for queue in self.app.sync.admin.queues():
                self.app.sync.admin.remove_queue(queue.name, force=True)

    class Working(Backend):  # in place of Django's immediate backend
        def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
            """Enqueue the task, let a worker do all that waits, and ask for the result."""
            result: Any = super().enqueue(task, args, kwargs)
            worker = threading.Thread(target=asyncio.run, args=(self._work(get_app(self.alias)),))
            worker.start()
            worker.join()
            result.refresh()
            return result

        async def _work(self, app: App) -> None:
            queues = [queue.name for queue in await app.admin.queues()]
            await app.worker(queues=queues).run(burst=True)


if __name__ == "__main__":
    main()
