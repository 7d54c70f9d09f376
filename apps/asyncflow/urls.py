"""The addresses of all dialects."""

from django.urls import path

from apps.asyncflow.dialects import BY_NAME
from apps.asyncflow.views import ping, view_of

urlpatterns = [
    path(
        f"{dialect.name}/{route.path}",
        ping if route.call == "ping" else view_of(dialect, route),
    )
    for dialect in BY_NAME.values()
    for route in dialect.routes
]
