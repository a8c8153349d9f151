"""The soak: `python -m tests.torture.soak` keeps a steady load with rare faults on a server and on SQLite for
hours, and says whether anything grows."""
