"""Statements about units of items: opened, ended, asked again, continued by lines, released."""
