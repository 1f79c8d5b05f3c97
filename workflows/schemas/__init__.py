"""What data must look like: schemas as authors write them, kept as JSON Schema, and checking by them.

Others read schemas by `schema` (`Schema`, `read_schema`, `load_schema`); forms and the page of the API look into
one by `flatten` and `field_order`.
"""
