"""Alerts in the admin: what fires, what is watched, how people are notified, and which reports they
get."""

from apps.alerts.admin import alerts, channels, deliveries, report_plans, rules, words

__all__ = ["alerts", "channels", "deliveries", "report_plans", "rules", "words"]
