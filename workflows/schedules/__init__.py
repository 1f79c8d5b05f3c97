"""Schedules: instances that are started at moments of a timetable, and the schedules that code declares."""
