"""What `manage.py benchmark` measures: every figure beside its baseline, in the same run."""
