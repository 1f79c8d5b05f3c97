"""The streams of a machine: planned with its class, opened, continued for each item, and ended."""
