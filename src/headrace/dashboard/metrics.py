"""`/metrics`: the store's levels, and what this process measures, for Prometheus."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headrace.core.errors import BackendUnavailable, ConfigurationError

from .site import Site


async def metrics(request: Request) -> Response:
    site: Site = request.app.state.site
    try:
        from headrace.observability.prometheus import exposed
    except ConfigurationError as error:
        return PlainTextResponse(str(error), 404)
    try:
        body, content_type = await exposed(site.app).render(request.headers.get("accept", ""))
    except BackendUnavailable as error:
        return PlainTextResponse(f"the store cannot be asked: {error}", 503)
    return Response(body, headers={"content-type": content_type})
