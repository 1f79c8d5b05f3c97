"""Looking after a site: health, metrics, system checks, instances that a deploy left stuck."""
