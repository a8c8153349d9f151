"""The apps of a Django project for the command line, by the aliases of their backends:
`DJANGO_SETTINGS_MODULE=shop.settings headrace worker headrace.django.project:default`.

`manage.py headrace` uses it, and so do the worker processes of `--processes`.
"""

from __future__ import annotations

import django
from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from .backend import Backend, get_app
from .framework import task_backends

if not apps.ready:
    django.setup()
autodiscover_modules("tasks")  # where headrace.django is not in INSTALLED_APPS

headrace_aliases = [alias for alias in task_backends if isinstance(task_backends[alias], Backend)]
globals().update({alias: get_app(alias) for alias in headrace_aliases})
