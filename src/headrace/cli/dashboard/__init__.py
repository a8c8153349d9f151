"""The command `dashboard`, and its HTTP server."""
