"""Approvals for agents that speak MCP; the extra `mcp`. A person's agent decides what that person may, and no more."""
