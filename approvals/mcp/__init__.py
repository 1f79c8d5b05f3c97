"""Approvals for agents that speak MCP; the extra `mcp`. A person's agent decides what that person may, and no more.

The command `approvals_mcp` uses `server.build_server` and `agent_desk.open_desk`.
"""
