"""The words of the API: problems, bodies, and rows as callers see them.

`problems` words every error, `bodies` checks what came in, and `operation` describes a view's method.
"""
