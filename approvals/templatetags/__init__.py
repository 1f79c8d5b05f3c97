"""Tags and filters for templates: `{% load approvals %}`."""
