"""Fixtures that every test may use. The database comes from `tests.postgres_plugin`."""
