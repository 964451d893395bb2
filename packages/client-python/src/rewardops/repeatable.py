"""Which calls by name may be sent twice."""

from __future__ import annotations

import uuid
from typing import Any

#: Mutations that are repeatable with an idempotency key.
KEYED = frozenset(("batches.submit", "batches.rescore", "samples.score"))
#: Mutations that are not repeatable. `server/api/call-rules.test.ts` checks that the set is complete.
NOT_REPEATABLE = frozenset(
    (
        "alerts.create",
        "alerts.remove",
        "alerts.test",
        "alerts.update",
        "annotations.add",
        "annotations.remove",
        "annotations.update",
        "demo.load",
        "keys.create",
        "keys.rename",
        "keys.require",
        "keys.revoke",
        "keys.rotate",
        "limits.clear",
        "limits.set",
        "marks.create",
        "marks.remove",
        "marks.update",
        "monitors.configure",
        "retention.cancel",
        "retention.deleteRun",
        "retention.keepRun",
        "retention.set",
        "retention.start",
        "servers.launch",
        "servers.remove",
        "servers.sleep",
        "servers.wake",
        "session.signIn",
        "session.signOut",
        "sessions.end",
        "sessions.endOthers",
        "views.remove",
        "views.save",
        "views.update",
    )
)


def new_key() -> str:
    """An idempotency key."""
    return f"py-{uuid.uuid4().hex}"


def keyed(procedure: str, given: dict[str, Any]) -> dict[str, Any]:
    """The input of a call, with an idempotency key if the procedure takes one."""
    if procedure not in KEYED or given.get("idempotencyKey"):
        return given
    return {**given, "idempotencyKey": new_key()}
