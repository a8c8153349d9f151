"""headrace in a Django project: a backend of Django's tasks, `manage.py headrace`, and the dashboard.

Django 6 has tasks. For Django 5.2 the package `django-tasks` has them, with the same names.
"""

from __future__ import annotations

from headrace.core.errors import ConfigurationError

try:
    import django  # noqa: F401
except ModuleNotFoundError as error:
    raise ConfigurationError("headrace.django needs Django: pip install 'headrace[django]'") from error

from .backend import Backend, get_app
from .dashboard import dashboard_urls

__all__ = ["Backend", "dashboard_urls", "get_app"]
