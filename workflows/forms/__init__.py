"""The form of a JSON Schema: planned, shown, read and judged.

Others use `form` (`SchemaForm`), and `form_fields` to look at the fields of one.
"""
