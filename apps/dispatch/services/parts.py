"""What once tasks and their dispatches are part of."""

from __future__ import annotations

from apps.common.parts import Parts

parts = Parts()
