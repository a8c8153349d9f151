"""The connection to the file, its schema, and checks of its file system."""
