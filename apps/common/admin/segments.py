"""Choices that stand side by side, each a part of one bar: one of them, or several."""

from __future__ import annotations

from django import forms


class SegmentRadios(forms.RadioSelect):
    """One of a few."""

    template_name = "admin/widgets/segments.html"


class SegmentBoxes(forms.CheckboxSelectMultiple):
    """Several of a few, like the days of a week."""

    template_name = "admin/widgets/segments.html"
