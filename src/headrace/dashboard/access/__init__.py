"""Who may see the dashboard, and who may change something."""
