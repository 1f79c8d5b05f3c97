"""Schedules: their ticks when they are due, and the rows as somebody writes them."""
