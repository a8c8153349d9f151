"""The settings of the shop. The environment says where its files are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import django

FOLDER = Path(os.environ["SHOP_FOLDER"])
SECRET_KEY = "of the tests"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
LOGGING_CONFIG = None
ROOT_URLCONF = "django_shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGIN_URL = "/login/"
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "headrace.django",
    "django_shop",
    *([] if django.VERSION >= (6, 0) else ["django_tasks"]),
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / "shop.db"}}
TASKS: dict[str, Any] = {
    "default": {
        "BACKEND": "headrace.django.Backend",
        "QUEUES": ["default", "mails"],
        "OPTIONS": {"url": os.environ.get("SHOP_STORE", "memory://")},
    },
}
