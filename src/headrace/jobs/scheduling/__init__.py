"""Jobs at times: cron expressions and intervals."""
