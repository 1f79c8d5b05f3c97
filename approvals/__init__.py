"""People in a workflow: reviewers, policies, votes and the inbox.

What authors import comes from here, lazily, so that importing the package loads no model.
Depends on `workflows`; nothing in `workflows` may know this package.
"""
