"""The settings of the web server that is measured: one database, as a site has, and no router.

POPULATION names the database of a population; without it, the main one.
"""

import os

from benchmarks.site import settings as _bench

globals().update({name: getattr(_bench, name) for name in dir(_bench) if name.isupper()})

DATABASES = {"default": _bench.DATABASES[os.environ.get("POPULATION", "default")]}
DATABASE_ROUTERS: list[str] = []
