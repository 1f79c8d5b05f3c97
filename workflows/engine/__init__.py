"""Running claimed instances, and committing what becomes of them."""

from workflows.engine.running import complete as complete
from workflows.engine.running import limit_of as limit_of
from workflows.engine.running import run as run
from workflows.engine.running import runs_alone as runs_alone
from workflows.engine.settlement import settle as settle
