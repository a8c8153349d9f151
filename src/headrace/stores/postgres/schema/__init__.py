"""Creates the tables and functions, and brings them up to date."""
