"""One file a page: from a request, through `app.admin`, to what a template shows."""
