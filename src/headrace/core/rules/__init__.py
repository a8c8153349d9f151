"""Rules that hold in every store, written once: lanes, leases, layouts and turns."""
