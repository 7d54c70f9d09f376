"""What tests of the dispatch rules begin with."""

from apps.dispatch.rules.policy import Policy

POLICY = Policy(
    mode="single",
    dispatch_times=1,
    lease_seconds=60,
    on_failure="finish",
    on_expiry="give_back",
    max_rounds=3,
)
