"""The words of the API: problems, bodies, and rows as callers see them."""
