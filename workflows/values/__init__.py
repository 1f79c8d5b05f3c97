"""Plain values: JSON text, durations, types that signatures share. No table and no definition is known here.

Must not live here: anything that knows a row, a request or a page.
"""
