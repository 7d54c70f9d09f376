"""Alerts in the admin: what fires, what is watched, and how people are notified."""

from apps.alerts.admin import alerts, channels, deliveries, rules, words

__all__ = ["alerts", "channels", "deliveries", "rules", "words"]
