"""The suite: sentences about behaviour, on a real PostgreSQL, through public entry points."""
