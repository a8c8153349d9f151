"""A Django project in this process: Django can be set up once in a process."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import django
import pytest
from django.core.management import call_command
from django.test import override_settings

from headrace import ConfigurationError
from headrace.django import get_app

PROJECT = Path(__file__).parent / "project"


class Configure(Protocol):
    def __call__(self, **settings: Any) -> None: ...


def _set_up() -> None:
    """Before the modules of the tests are imported: they import those of the project."""
    folder = tempfile.mkdtemp(prefix="headrace-django-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    variables = {"SHOP_FOLDER": folder, "DJANGO_SETTINGS_MODULE": "django_shop.settings"}
    sys.path.insert(0, str(PROJECT))
    with mock.patch.dict(os.environ, variables):
        django.setup()
    call_command("migrate", verbosity=0)


_set_up()


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    """Each test leaves the database empty, and no connection open."""
    from django.db import connections
    from django_shop.models import Order

    yield
    Order.objects.all().delete()
    connections.close_all()


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Configure]:
    """Gives the task backend other settings: `configured(retry=...)` for options, `QUEUES=...` for others.
    Each test has a store of its own."""
    with ExitStack() as stack:

        def configure(**settings: Any) -> None:
            options = {name: value for name, value in settings.items() if name.islower()}
            others = {name: value for name, value in settings.items() if name.isupper()}
            if "app" not in options:
                options.setdefault("url", f"memory://{tmp_path.name}")
            entry = {"BACKEND": "headrace.django.Backend", "QUEUES": [], "OPTIONS": options, **others}
            stack.enter_context(override_settings(TASKS={"default": entry}))

        yield configure
        with suppress(ConfigurationError):  # the settings may be wrong
            get_app().sync.close()


def run_jobs(*queues: str) -> None:
    """A worker does all that waits."""
    asyncio.run(get_app().worker(queues=queues or ("default", "mails")).run(burst=True))
