"""COLUMN clauses become columns."""

from __future__ import annotations

import pytest

from sqlflow_elastic.compiler.columns import SIGNATURES, usage_of
from sqlflow_elastic.datasource import DataSource
from tests.compiler.database import train_plan


def columns(clause: str, source: DataSource, table: str = "passengers", label: str = "survived") -> list[str]:
    plan = train_plan(f"SELECT * FROM {table} TO TRAIN LinearRegressor COLUMN {clause} LABEL {label} INTO m", source)
    return [repr(column) for column in plan.features.columns["feature_columns"]]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("age", ['Dense("age")']),
        ("AGE", ['Dense("age")']),
        ('"age"', ['Dense("age")']),
        ("sex", ['Indicator(Vocabulary("sex"))']),
        ("NUMERIC(age, 1)", ['Dense("age")']),
        ("dense(age, [1])", ['Dense("age")']),
        ("DENSE(ticket, [2, 3], COMMA, float64)", ['Dense("ticket", shape=6, delimiter=",", dtype="float64")']),
        ('DENSE(ticket, 4, ";")', ['Dense("ticket", shape=4, delimiter=";")']),
        ("DENSE(ticket, 4, TAB)", ['Dense("ticket", shape=4, delimiter="\\t")']),
        ("SPARSE(ticket, 100)", ['Sparse("ticket", 100)']),
        (
            "SPARSE(ticket, 100, COMMA, float, COLON, int)",
            ['Sparse("ticket", 100, dtype="float", kv_delimiter=":", key_dtype="int")'],
        ),
        ("BUCKET(age, 30)", ['Bucket("age", [30])']),
        ("SEQ_CATEGORY_ID(ticket, 9)", ['SeqCategoryId("ticket", 9)']),
        ("WEIGHTED_CATEGORY(SPARSE(ticket, 9, COMMA, float, COLON))", None),
        ("EMBEDDING(sex, 4, combiner=sqrtn, initializer=uniform)", None),
        ("EMBEDDING(sex, 4, SUM)", ['Embedding("sex", 4)']),
        ('DENSE("(age|fare)", 1)', ['Dense("age")', 'Dense("fare")']),
        (
            'INDICATOR(CATEGORY_HASH("(sex|tick.*)", 10))',
            ['Indicator(CategoryHash("sex", 10))', 'Indicator(CategoryHash("ticket", 10))'],
        ),
        ('CROSS(["(sex|pclass)", alone], 10)', ['Cross(["pclass", "sex", "alone"], 10)']),
        ("age, age", ['Dense("age")']),
        (
            "BUCKET(age, [30]), *",
            [
                'Bucket("age", [30])',
                'Dense("pclass")',
                'Indicator(Vocabulary("sex"))',
                'Embedding(CategoryHash("ticket", 16384), 16)',
                'TimeParts("boarded")',
                'Dense("alone")',
                'Dense("fare")',
            ],
        ),
    ],
)
def test_clause_becomes(clause: str, expected: list[str] | None, source: DataSource) -> None:
    found = columns(clause, source)
    if expected is not None:
        assert found == expected
    else:
        assert len(found) == 1


def test_a_field_of_lists_is_a_category_of_its_ids(source: DataSource) -> None:
    hashed = 'CategoryHash(Sparse("ids", 2147483647), 1024)'
    assert columns("EMBEDDING(ids, 4), INDICATOR(ids)", source, "lists", "price") == [
        f"Embedding({hashed}, 4)",
        f"Indicator({hashed})",
    ]


def test_without_column_every_input_gets_every_field(source: DataSource) -> None:
    plan = train_plan(
        "SELECT age, sex, survived FROM passengers TO TRAIN DNNLinearCombinedRegressor "
        "WITH model.dnn_hidden_units = [4] LABEL survived INTO m",
        source,
    )
    both = 'Dense("age") Indicator(Vocabulary("sex"))'
    assert {name: " ".join(map(repr, group)) for name, group in plan.features.columns.items()} == {
        "linear_feature_columns": both,
        "dnn_feature_columns": both,
    }


def test_the_rest_is_what_the_same_input_does_not_name(source: DataSource) -> None:
    plan = train_plan(
        "SELECT age, sex, survived FROM passengers TO TRAIN DNNLinearCombinedRegressor "
        "WITH model.dnn_hidden_units = [4] COLUMN age, * FOR linear_feature_columns COLUMN sex FOR dnn_feature_columns "
        "LABEL survived INTO m",
        source,
    )
    assert [repr(column) for column in plan.features.columns["linear_feature_columns"]] == [
        'Dense("age")',
        'Indicator(Vocabulary("sex"))',
    ]


def test_usage_is_told_for_every_column() -> None:
    assert usage_of("SPARSE") == "SPARSE(field, shape[, delimiter[, dtype[, kv_delimiter[, key_dtype]]]])"
    assert all(usage_of(name).startswith(f"{name}(") for name in SIGNATURES)
