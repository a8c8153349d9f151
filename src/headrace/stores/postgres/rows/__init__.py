"""Values and rules for rows and columns: lanes, unique keys, pending changes."""
