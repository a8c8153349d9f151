"""`/metrics` for Prometheus: the counts in the store, and what this process measures."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headrace.core.errors import BackendUnavailable, ConfigurationError
from headrace.dashboard.site import Site


async def metrics(request: Request) -> Response:
    site: Site = request.app.state.site
    try:
        from headrace.observability.prometheus import exposed
    except ConfigurationError as error:
        return PlainTextResponse(str(error), 404)
    try:
        body, content_type = await exposed(site.app).render(request.headers.get("accept", ""))
    except BackendUnavailable as error:
        return PlainTextResponse(f"store unavailable: {error}", 503)
    return Response(body, headers={"content-type": content_type})
