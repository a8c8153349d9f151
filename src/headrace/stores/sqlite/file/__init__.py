"""The database file: its address, who may read it, and the room on its disk."""
