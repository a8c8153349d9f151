"""What a worker of the Flask site loads: the app, and the site whose context its jobs have."""

from __future__ import annotations

from tests.integration.programs.flask_site import app, create_app

__all__ = ["app", "site"]

site = create_app()
