"""Queues, limits and paused workflows in the admin: read, and changed through the calls that everybody makes."""
