"""A Django project for the benchmark: the real site's settings, and workflows that do next to nothing."""
