"""A database engine for Django: `"ENGINE": "workflows.backend"`. See `base`."""
