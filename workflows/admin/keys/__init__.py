"""API keys in the admin: made, shown once, rotated, revoked."""
