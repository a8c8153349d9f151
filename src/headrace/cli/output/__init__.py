"""What the commands print: tables, JSON, progress, questions."""
