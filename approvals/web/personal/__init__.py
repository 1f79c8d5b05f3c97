"""One's own settings, absences and saved views."""
