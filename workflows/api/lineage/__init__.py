"""Lineage: instances that go on from a point in the life of another one."""
