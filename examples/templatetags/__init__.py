"""Tags of the demo's templates: `{% load demo %}`."""
