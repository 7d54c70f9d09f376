"""The link from once tasks and dispatches to the rows above their app, such as steps of flows."""

from __future__ import annotations

from apps.common.parts import Parts

parts = Parts()
