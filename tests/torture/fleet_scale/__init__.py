"""The scale of a fleet: `python -m tests.torture.fleet_scale` runs 300 real workers in a few processes on one
server, and 500 queues in one worker. It measures what the server does for them, and how soon the work of
workers that die runs again."""
