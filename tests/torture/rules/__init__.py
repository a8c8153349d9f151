"""The rules of the checker, one in each file. A file has `check(history)`, which gives the name of each
message for which the rule does not hold, and why."""
