"""Jobs and events in a transaction of the user."""
