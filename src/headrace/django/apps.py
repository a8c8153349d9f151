"""`headrace.django` in INSTALLED_APPS."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class HeadraceConfig(AppConfig):  # type: ignore[misc]
    """Imports the module `tasks` of each installed app, so that workers know all tasks."""

    name = "headrace.django"
    label = "headrace"
    verbose_name = "headrace"

    def ready(self) -> None:
        autodiscover_modules("tasks")
