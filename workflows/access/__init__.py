"""Who may call the REST API: keys, and the workspaces of users."""
