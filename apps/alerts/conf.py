"""Settings of alerts."""

from __future__ import annotations

from apps.common.conf import Conf, Setting, duration
from apps.jobs.conf import HOSTS, parse_hosts


class AlertsConf(Conf):
    title = "Alerts"

    ALERT_HOSTS = Setting(
        "oapi.dingtalk.com,qyapi.weixin.qq.com,open.feishu.cn,open.larksuite.com,hooks.slack.com",
        parse_hosts,
        HOSTS,
        "Hosts that channels of alerts may call; a list of yours replaces that of the bots. "
        "Addresses that are not public also need `JOB_HTTP_NETWORKS`.",
        usual="those of the known bots",
    )
    ALERT_RETENTION = duration(
        "90d",
        "How long deliveries and resolved alerts are kept.",
        minimum="1d",
        maximum="36500d",
    )


conf = AlertsConf()
