"""What workers do on timers, and what becomes of a worker that is gone: leases, due times, schedules."""
