"""What is kept of jobs that have ended."""
