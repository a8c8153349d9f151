"""Records jobs that have ended, beside their settlement."""
