"""The buttons of the dashboard."""
