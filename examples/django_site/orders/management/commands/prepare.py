"""`manage.py prepare`: the tables of the site and of the outbox, and a first user."""

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    def handle(self, **options: object) -> None:
        call_command("migrate", verbosity=0)
        # In a project of yours: `headrace schema apply URL`, once.
        call_command("headrace", "schema", "apply", settings.TASKS["default"]["OPTIONS"]["outbox"])
        if not User.objects.filter(username="admin").exists():
            User.objects.create_superuser("admin", password="admin")
