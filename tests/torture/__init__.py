"""The torture harness: random programs on real stores, real faults, and a checker of what happened.

`python -m tests.torture` runs it. A workload, a fault and a rule are each one file, in the folder of that
name; a new file there is found by itself.
"""
