import json
import subprocess
import sys

import pytest

from sqlflow_elastic.models import features
from sqlflow_elastic.models.features import (
    Bucket,
    CategoryHash,
    CategoryId,
    ClassLabel,
    Column,
    Cross,
    Dense,
    Embedding,
    Field,
    Indicator,
    Kind,
    Label,
    NumberLabel,
    SeqCategoryId,
    Sparse,
    TimeParts,
    Vocabulary,
    WeightedCategory,
)
from sqlflow_elastic.models.features.nodes import Node

KINDS: dict[str, Kind] = {"f": "float", "i": "integer", "t": "text", "d": "time", "b": "boolean"}

TEXTS = [
    'Field("age", "float")',
    'Dense("age")',
    'Dense("csv", shape=4, delimiter=";", dtype="int64", normalize=False)',
    'TimeParts("born")',
    'Sparse("ids", 100, kv_delimiter=":")',
    'Vocabulary("city", max_values=10)',
    'Bucket(Dense("age"), [18, 65.5])',
    'CategoryId("i", 9)',
    'SeqCategoryId(Sparse("ids", 9, delimiter=" "), 9)',
    'CategoryHash("city", 100)',
    'WeightedCategory(CategoryId(Sparse("kv", 5, kv_delimiter=":"), 5))',
    'Embedding(Cross(["a", Bucket(Dense("b"), [1, 2])], 100), 8, combiner="mean", initializer="zeros")',
    'Indicator("城市")',
    'ClassLabel("y", classes=["it\'s", "a \\"b\\"", "\\\\"])',
    'ClassLabel("y", classes=[True, False])',
    'NumberLabel("price", shape=3)',
]


@pytest.mark.parametrize("text", TEXTS)
def test_repr_is_the_program_text(text: str) -> None:
    value = eval(text, vars(features))
    assert eval(repr(value), vars(features)) == value
    if "\\" not in text:
        assert repr(value) == text


@pytest.mark.parametrize("text", TEXTS)
def test_json_round_trip(text: str) -> None:
    value = eval(text, vars(features))
    assert Node.from_json(json.loads(json.dumps(value.to_json()))) == value
    assert hash(value) == hash(Node.from_json(value.to_json()))


def test_fields_are_named_once_in_order() -> None:
    assert Cross(["a", Bucket(Dense("b"), [1]), "a"], 9).fields() == ("a", "b")


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (Dense("x"), "there is no field 'x'"),
        (Embedding("f", 4), "EMBEDDING cannot read field 'f', which is of kind float; "
                            "cut it into ranges with BUCKET(f, [boundaries])"),
        (Embedding(Dense("f"), 4), "EMBEDDING needs a category, and DENSE is none"),
        (Embedding("t", 4, "max"), "EMBEDDING: the combiner must be sum, mean or sqrtn, not 'max'"),
        (Embedding("t", 4, initializer="nice"), "EMBEDDING: there is no initializer 'nice'"),
        (Embedding("t", 0), "EMBEDDING: size must be at least 1, not 0"),
        (Dense("d"), "DENSE cannot read field 'd', which is of kind time; "
                     "leave DENSE away to get its year, month, day and hour"),
        (Dense("f", 3), "DENSE: 3 numbers need a text field, and 'f' is of kind float"),
        (Dense("t", dtype="string"), "DENSE: 'string' is not a type of numbers; use float32 or int64"),
        (TimeParts("i"), "TIME_PARTS cannot read field 'i', which is of kind integer"),
        (Bucket("f", [2, 1]), "BUCKET: the boundaries [2, 1] do not increase"),
        (Bucket("f", []), "BUCKET needs at least one boundary"),
        (Bucket(Dense("t", 2), [1]), 'BUCKET takes one number a row, and Dense("t", shape=2) gives 2'),
        (Bucket("t", [1]), "BUCKET cannot read field 't', which is of kind text"),
        (CategoryId("f", 3), "CATEGORY_ID cannot read field 'f', which is of kind float; "
                             "cut it into ranges with BUCKET(f, [boundaries])"),
        (CategoryId("i", 0), "CATEGORY_ID: n must be at least 1, not 0"),
        (CategoryId(Vocabulary("t"), 3),
         "CATEGORY_ID needs a field, DENSE, SPARSE or BUCKET, and VOCABULARY is none of these"),
        (Sparse("t", 9, ",", kv_delimiter=","), "SPARSE: the two delimiters must differ, both are ','"),
        (Sparse("t", 9, ""), "SPARSE: delimiter must not be empty"),
        (WeightedCategory(CategoryId("t", 3)),
         "WEIGHTED_CATEGORY needs ids with weights: a category over SPARSE with a delimiter for key and value"),
        (Cross(["t"], 9), "CROSS needs at least two columns"),
        (Cross(["t", Dense("f")], 9), "CROSS cannot read field 'f', which is of kind float; "
                                      "cut it into ranges with BUCKET(f, [boundaries])"),
        (Indicator(Cross(["t", Bucket("f", [])], 9)), "BUCKET needs at least one boundary"),
    ],
)  # fmt: skip
def test_what_does_not_fit(column: Column, problem: str) -> None:
    assert column.check(KINDS) == [problem]


@pytest.mark.parametrize(
    "column",
    [
        Dense("b"),
        Dense("t"),
        Dense("t", 4),
        TimeParts("d"),
        Sparse("t", 9),
        Indicator("b"),
        Embedding(Cross(["i", Bucket(Dense("f"), [1, 2]), Dense("i")], 100), 8),
        Indicator(WeightedCategory(Sparse("t", 5, kv_delimiter=":"))),
        Embedding(SeqCategoryId("t", 5), 8),
        CategoryHash("d", 5),
        CategoryId(Bucket("f", [1]), 2),
    ],
)
def test_what_fits(column: Column) -> None:
    assert column.check(KINDS) == []


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        (ClassLabel("x"), "there is no field 'x'"),
        (ClassLabel("i", [1]), "the label 'i' needs at least two classes"),
        (ClassLabel("i", [1, 1]), "the label 'i' has a class twice"),
        (ClassLabel("d"), "the label 'd' is of kind time, which is not a class"),
        (NumberLabel("d"), "the label 'd' is of kind time, not a number"),
        (NumberLabel("f", 3), "the label 'f' is of kind float, not a text of 3 numbers"),
        (NumberLabel("t", 0), "the label 't' needs a shape of at least 1, not 0"),
    ],
)
def test_labels_that_do_not_fit(label: Label, problem: str) -> None:
    assert label.check(KINDS) == [problem]


def test_columns_statistics_and_reading_an_artifact_import_no_tensorflow() -> None:
    code = (
        "import sys; import sqlflow_elastic.models.features.statistics, sqlflow_elastic.models.artifact\n"
        "assert not {'tensorflow', 'keras'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Denser'"):
        features.Denser  # noqa: B018


def test_a_field_is_what_it_says() -> None:
    assert Field("age", "float").kind == "float"
