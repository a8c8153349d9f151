"""Crash points: every place where headrace waits for its store or for a child process. At each of them in
turn, a process is killed or a task is cancelled."""
