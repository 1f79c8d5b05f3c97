"""Taking the history out, as JSON lines with its seals.

Lives here: the members of a line. Must not live here: SQL. Invariant owned: an export proves as much as the database
does, with payloads and without.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.fields import EventField, StatusField
from workflows.ledger.sealing import write_moment
from workflows.store.ledger import ledger_audit
from workflows.store.ledger.ledger_audit import SealLink


def export_lines(db: BaseDatabaseWrapper, workspace: int | None = None, *, payloads: bool = True) -> Iterator[str]:
    """JSON lines: the seals of each workspace, then every row with its hash, by instance and number.

    Hashes cover the payload through its digest, so an export without payloads proves as much.
    """
    for slug, id in ledger_audit.list_workspaces(db):
        if workspace in (None, id):
            for link in ledger_audit.read_links(db, id):
                yield json.dumps({"type": "seal", "workspace": slug, **_show_link(link)})
    kinds, statuses = EventField(), StatusField()
    for (
        slug,
        instance,
        seq,
        at,
        due,
        kind,
        status,
        actor,
        name,
        data,
        xid,
        digest,
        digest_of_row,
        redacted,
    ) in ledger_audit.read_rows(db, workspace):
        row: dict[str, Any] = {
            "type": "row",
            "workspace": slug,
            "instance": str(instance),
            "seq": seq,
            "at": write_moment(at),
            "due_at": write_moment(due),
            "kind": kinds.to_python(kind),
            "status": statuses.to_python(status),
            "actor": actor,
            "name": name,
            "xid": xid,
            "digest": digest,
            "redacted": redacted,
            "hash": digest_of_row,
        }
        if payloads:
            row["data"] = None if data is None else json.loads(data)
        yield json.dumps(row, ensure_ascii=False)


def _show_link(link: SealLink) -> dict[str, Any]:
    return {
        "number": link.number,
        "sealed_at": write_moment(link.sealed_at),
        "era": link.era,
        "since": write_moment(link.since),
        "from_xid": link.from_xid,
        "to_xid": link.to_xid,
        "rows": link.rows,
        "previous": link.previous.hex(),
        "hash": link.hash.hex(),
    }
