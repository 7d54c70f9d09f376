"""Choices that stand side by side, each a part of one bar: one of them, or several."""

from __future__ import annotations

from django import forms


class SegmentRadios(forms.RadioSelect):
    """A choice of one among a few values."""

    template_name = "admin/widgets/segments.html"


class SegmentBoxes(forms.CheckboxSelectMultiple):
    """A choice of several among a few values, like the days of a week."""

    template_name = "admin/widgets/segments.html"
