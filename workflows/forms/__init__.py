"""The form of a JSON Schema: planned, shown, read and judged."""
