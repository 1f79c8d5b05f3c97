"""The OpenAPI document and its page.

Must not live here: what it says of one operation, which is `rest.protocol.operation`.
"""
