"""The reviewers' part of the REST API: /v1/approvals. It is registered in the app's `ready()`.

Others use `api_part.PART`, and `review_rows` for a review as JSON.
"""
