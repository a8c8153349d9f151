"""The settings of the site. Its two files are in the folder DATA: the database, and the store of headrace."""

import os
from pathlib import Path

import django

HERE = Path(__file__).parents[1]
DATA = Path(os.environ.get("DATA", HERE))

SECRET_KEY = "only for this example"
DEBUG = True
ROOT_URLCONF = "website.urls"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
LOGIN_URL = "admin:login"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "headrace.django",
    "orders",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATA / "site.db"}}

# An order and its job are one step: the job is written into the database, and the worker takes it from there.
TASKS = {
    "default": {
        "BACKEND": "headrace.django.Backend",
        "OPTIONS": {
            "url": f"sqlite:///{DATA}/jobs.db",
            "outbox": f"sqlite:///{DATA}/site.db",
            "enqueue": "in_transaction",
        },
    },
}
if django.VERSION < (6, 0):
    INSTALLED_APPS.append("django_tasks")
