"""The addresses of `/v1`, a module for each resource."""
