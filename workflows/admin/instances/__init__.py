"""Instances in the admin: the list, the page, its history, cancel and retry."""
