"""The pages of the shop."""

from __future__ import annotations

from django.urls import include, path

from headrace.django import dashboard_urls

urlpatterns = [
    path("jobs/", include(dashboard_urls())),
    path("mails/", include(dashboard_urls(see="django_shop.view_order", change="django_shop.change_order"))),
    path("<slug:customer>/jobs/", include(dashboard_urls())),
]
