"""The command `status`, and what it reads and shows."""
