"""Hosting by django-q: its cluster, its schedule, and who watches that a pump runs."""
