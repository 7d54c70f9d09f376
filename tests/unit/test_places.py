"""What `make test` notes of statements, and what it makes of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.places import missed, statement_of


def test_statements_of_both_databases_are_one() -> None:
    kept = "select jobs_job error"
    assert statement_of('SELECT "id" FROM "jobs_job" WHERE "jobs_job"."error" LIKE %s') == kept
    assert statement_of("SELECT `id` FROM `jobs_job` WHERE `jobs_job`.`error` LIKE %s") == kept
    masked = "SELECT `id` FROM `jobs_job` WHERE REPLACE(`jobs_job`.`error`, %s, %s) LIKE %s"
    assert statement_of(f"{masked} AND `jobs_job`.`error` LIKE %s") == kept
    assert statement_of("(SELECT id FROM jobs_job WHERE a = 1) UNION ALL …") == "select jobs_job"
    assert statement_of("UPDATE jobs_job SET a = 1") == "update jobs_job"
    assert statement_of("SAVEPOINT x") == statement_of("PRAGMA data_version") == ""


def test_what_only_sqlite_was_sent_is_named_with_its_test(tmp_path: Path) -> None:
    for process, places in (
        ("gw0", {"a.py f: select x": "t1"}),
        ("gw1", {"b.py g: update y": "t2"}),
    ):
        (tmp_path / f"sqlite-{process}.json").write_text(json.dumps(places))
    (tmp_path / "mysql-gw1.json").write_text(json.dumps({"a.py f: select x": "t3"}))

    assert list(missed(tmp_path)) == ["b.py g: update y\n    sent by t2"]
