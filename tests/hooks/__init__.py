"""Inbound hooks: what providers post."""
