"""The reviewers' part of the REST API: /v1/approvals. It is registered in the app's `ready()`."""
