"""How the theme of the admin looks: names, scripts, menu and colours."""

from __future__ import annotations

from typing import Any

from django.templatetags.static import static
from django.urls import reverse_lazy
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _

# Looked up at each use, because the manifest of the static files is not there yet.
_static = lazy(static, str)
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": _("Task platform"),
    "SITE_HEADER": _("Task platform"),
    "SITE_SYMBOL": "task_alt",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": _static("taskplatform/favicon.svg")}
    ],
    "STYLES": [_static(f"taskplatform/{name}.css") for name in ("lists", "admin", "pages")],
    "SCRIPTS": [
        _static(f"taskplatform/{name}.js")
        for name in ("suggest", "search", "keys", "reach", "zone", "once", "mended")
    ],
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": True,
    "ACCOUNT": {
        "navigation": [
            {"title": _("My settings"), "link": reverse_lazy("preferences")},
            {"title": _("Change password"), "link": reverse_lazy("admin:password_change")},
        ]
    },
    "SIDEBAR": {
        "show_search": True,
        "navigation": "taskplatform.site.navigation",
    },
    "COLORS": {
        "primary": {
            "50": "oklch(96.2% .018 272.314)",
            "100": "oklch(93% .034 272.788)",
            "200": "oklch(87% .065 274.039)",
            "300": "oklch(78.5% .115 274.713)",
            "400": "oklch(67.3% .182 276.935)",
            "500": "oklch(58.5% .233 277.117)",
            "600": "oklch(51.1% .262 276.966)",
            "700": "oklch(45.7% .24 277.023)",
            "800": "oklch(39.8% .195 277.366)",
            "900": "oklch(35.9% .144 278.697)",
            "950": "oklch(25.7% .09 281.288)",
        },
    },
}
