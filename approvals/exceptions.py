"""Every error this app raises, one tree. The class names the condition and builds its own message.

ApprovalError
"""


class ApprovalError(Exception):
    """The root: catch it to catch everything that `approvals` raises."""
