"""The benchmark: Holdpoint beside a peer and beside the database's own limit, in one run on one machine.

`python -m benchmarks` runs it; README.md says how it measures and shows the last results. Nothing here is
a test: tests pin numbers of statements and query plans, this pins nothing and only reports.
"""
