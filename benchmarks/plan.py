"""What one run is to do, and the turns in which contenders are measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.contenders.dbos import Dbos
from benchmarks.contenders.django_q import DjangoQ
from benchmarks.contenders.restate import Restate


@dataclass(frozen=True)
class Plan:
    """The options of a run and the contenders' databases."""

    repetitions: int
    full: bool
    seed_size: int
    url: str
    raw_url: str
    #: None where a peer could not be installed; `…_missing` says why.
    dbos: Dbos | None = None
    dbos_missing: str = ""
    #: It is a dependency, so it is always there; None where peers are left out.
    django_q: DjangoQ | None = None
    restate: Restate | None = None
    restate_missing: str = ""

    def interleave(
        self, contenders: Mapping[str, Callable[[], float]], unit: str = "/s"
    ) -> dict[str, tuple[float, ...]]:
        """Measure A, B, A, B …, so that a machine that changes its pace changes it for everybody."""
        samples: dict[str, list[float]] = {name: [] for name in contenders}
        for repetition in range(1, self.repetitions + 1):
            for name, measure in contenders.items():
                samples[name].append(measure())
                say(f"    {repetition}/{self.repetitions}  {name:<28} {samples[name][-1]:>12,.2f} {unit}")
        return {name: tuple(values) for name, values in samples.items()}


_begun = time.monotonic()


def say(text: str) -> None:
    """Print a line of progress with the time since the start."""
    print(f"{time.monotonic() - _begun:6.0f} s  {text}", flush=True)
