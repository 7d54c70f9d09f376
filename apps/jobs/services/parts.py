"""What jobs are part of."""

from __future__ import annotations

from apps.common.parts import Parts

parts = Parts()
