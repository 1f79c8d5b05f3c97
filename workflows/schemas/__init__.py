"""What data must look like: schemas as authors write them, kept as JSON Schema, and checking by them."""
