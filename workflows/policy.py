"""`WORKFLOWS["POLICY"]`: the project's say in who may suspend, resume and time out.

Invariant owned: the policy is asked before anything is written, and what it refuses is `PolicyRefused`.
It is a function `(operation, interaction, actor)` with operation "suspend", "resume" or "timeout"; it refuses
by returning False or a text (the reason), or by raising `PolicyRefused`; None and True allow.
"""

from __future__ import annotations

from typing import Any

from workflows.conf import conf
from workflows.exceptions import PolicyRefused


def ask_policy(operation: str, interaction: Any, actor: str) -> None:
    """Ask the project, if it has a policy; raises `PolicyRefused`."""
    policy = conf.policy
    if policy is None:
        return
    answer = policy(operation, interaction, actor)
    if answer is False or isinstance(answer, str):
        raise PolicyRefused(operation, answer or "")
