"""Many requests at once: what they share, what differs, and a result for each.

Its view is `bulk_views.bulk`.
"""
