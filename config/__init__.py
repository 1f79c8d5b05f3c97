"""The runnable site: settings, URLs, servers and the embedded PostgreSQL.

It hosts the two apps the way a project of yours would, and is not part of the wheel.
Nothing in `workflows` or `approvals` may import it.
"""
