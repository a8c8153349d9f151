"""The pages: the shop, Django's admin, and the dashboard of headrace for its staff."""

from django.contrib import admin
from django.urls import include, path
from orders.views import shop

from headrace.django import dashboard_urls

urlpatterns = [
    path("", shop, name="shop"),
    path("admin/", admin.site.urls),
    path("jobs/", include(dashboard_urls())),
]
