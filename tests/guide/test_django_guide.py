"""The page about Django, followed in a new project."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import django
import pytest

PAGE = Path(__file__).parents[2] / "docs/guides/django.md"

pytestmark = [pytest.mark.timeout(300), pytest.mark.more]

MODELS = """
from django.db import models


class Order(models.Model):
    email = models.EmailField()
    state = models.CharField(max_length=20, default="new")
"""

#: What the page takes for granted.
ASSUMED = 'EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"\nLOGIN_URL = "/login/"\n'

CHECKS = """
from django.test import Client
from headrace.django import get_app
from orders.models import Order
from orders.tasks import charge

assert Order.objects.get(pk=7).state == "paid"
browser = Client(SERVER_NAME="localhost")
assert browser.get("/jobs/")["location"].startswith("/login/")
assert browser.get("/orders/jobs/").status_code == 302
[job] = get_app().sync.admin.jobs(state="succeeded")
done = charge.get_result(job.id)
print(done.status, done.return_value)
assert [each.name for each in get_app().sync.schedules.list()] == ["charge-7-again"]
"""


class Reader:
    """A person who follows the page in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.run("-m", "django", "startproject", "shop", ".")
        self.run("manage.py", "startapp", "orders")
        (folder / "orders/models.py").write_text(MODELS)
        self.append("shop/settings.py", ASSUMED)

    def run(self, *words: str) -> str:
        ended = subprocess.run(
            [sys.executable, *words],
            cwd=self._folder,
            env={**os.environ, "HEADRACE_URL": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    def append(self, name: str, text: str) -> None:
        path = self._folder / name
        path.write_text((path.read_text() if path.exists() and name.endswith("settings.py") else "") + text)

    def shell(self, text: str) -> str:
        return self.run("manage.py", "shell", "-c", text)


def test_the_page_works_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    text = PAGE.read_text()
    if django.VERSION < (6, 0):
        text = text.replace("from django.tasks import", "from django_tasks import")
    blocks = re.findall(r"^```python\n# (.*?)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 8
    typed = []
    for name, block in blocks:
        if name.endswith(".py"):
            reader.append(name, block)
        else:
            typed.append(block)
    reader.run("manage.py", "makemigrations", "orders")
    reader.run("manage.py", "migrate")
    assert "$ python manage.py headrace schema apply sqlite:///db.sqlite3\n" in text
    reader.run("manage.py", "headrace", "schema", "apply", "sqlite:///db.sqlite3")
    reader.shell("from orders.models import Order; Order.objects.create(pk=7, email='ada@example.com')")
    for block in typed:
        reader.shell(block)
    assert "$ python manage.py headrace worker --concurrency 10\n" in text
    output = reader.run("manage.py", "headrace", "worker", "--concurrency", "10", "--burst")
    assert "Order 7 is paid." in output  # the mail
    assert "SUCCESSFUL paid" in reader.shell(CHECKS)
    assert reader.run("-c", "from orders.jobs import app; print(app.description)").startswith("SQLite file")
