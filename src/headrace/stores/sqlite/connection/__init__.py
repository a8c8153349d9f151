"""A connection to the file, its schema, and the file system below it."""
