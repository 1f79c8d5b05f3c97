"""The real site's settings with DEBUG off, the benchmark's workflows and one alias per population.

What lives here: only the differences, so that what is measured is what ships.
DATABASE_URL names the main database; the populations' databases carry its name and a suffix.
"""

import os

os.environ["DEBUG"] = "1"  # the site then makes its own secrets; Django's debug mode itself is off below

from config import settings as shipped

globals().update({name: getattr(shipped, name) for name in dir(shipped) if name.isupper()})

DEBUG = False  # Django would otherwise keep every statement in memory
WHITENOISE_USE_FINDERS = WHITENOISE_AUTOREFRESH = False  # a file system look-up at each request
INSTALLED_APPS = [*shipped.INSTALLED_APPS, "benchmarks.site"]

POPULATIONS = ("small", "large", "huge")
_main = shipped.DATABASES["default"]
DATABASES = {"default": _main} | {name: {**_main, "NAME": f"{_main['NAME']}_{name}"} for name in POPULATIONS}
DATABASE_ROUTERS = ["benchmarks.site.routing.Router"]
LOGGING = shipped.LOGGING | {"loggers": {}, "root": {"handlers": ["console"], "level": "ERROR"}}
