"""A small app of somebody else, as type checkers see it. Nothing here is run; `test_types` has it checked.

A line that must be refused ends with `# E: <mypy's code> <pyright's rule>`; every other line must pass in both.
"""
