"""The settings and URLs of the site."""
