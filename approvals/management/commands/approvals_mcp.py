"""`manage.py approvals_mcp --user NAME`: an MCP server over stdin and stdout, for one person's agent."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.exceptions import InvalidCall


class Command(BaseCommand):
    """Serve one person's desk until the client goes."""

    help = (
        "Lets an agent that speaks MCP look at what waits for one person, and decide it under that person's rights. "
        "Its decisions are recorded as automated; what is of high risk it can never approve. Started by the agent's "
        "client; speaks the protocol on stdin and stdout."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Whose desk."""
        parser.add_argument("--user", required=True, help="the username of the person on whose behalf the agent acts")
        parser.add_argument("--workspace", help="its slug; needed where the person is in several")

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve."""
        try:
            from approvals.mcp.server import build_server
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
                raise
            raise CommandError(
                'The MCP SDK is not installed, or is older than its version 2: pip install "django-holdpoint[mcp]"'
            ) from error
        from approvals.mcp.agent_desk import open_desk

        try:
            desk = open_desk(options["user"], options["workspace"])
        except InvalidCall as error:
            raise CommandError(f"{error}.") from error
        build_server(desk).run("stdio")
