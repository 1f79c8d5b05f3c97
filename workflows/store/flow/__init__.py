"""Statements of flow control: lanes and their claims, slots, buckets, and what is set at run time."""
