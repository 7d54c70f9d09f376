"""Settings of alerts."""

from __future__ import annotations

from apps.common.conf import Conf, Setting, duration
from apps.jobs.conf import parse_hosts


class AlertsConf(Conf):
    ALERT_HOSTS = Setting[tuple[str, ...]](
        (
            "oapi.dingtalk.com",
            "qyapi.weixin.qq.com",
            "open.feishu.cn",
            "open.larksuite.com",
            "hooks.slack.com",
        ),
        parse_hosts,
        "Hosts that channels of alerts may call: alerts.example.com, *.example.com, host:8443.",
    )
    ALERT_RETENTION = duration(
        "90d",
        "How long deliveries, resolved alerts and runs of reports are kept.",
        minimum="1d",
        maximum="36500d",
    )


conf = AlertsConf()
