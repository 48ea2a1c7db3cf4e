"""Feature columns: from the raw fields of a SELECT to what a network sees.

The columns and labels come without TensorFlow; `FeatureInputs` and `Encoder` are imported with it when first asked for.
"""

from typing import TYPE_CHECKING, Any

from sqlflow_elastic.models.features.columns import (
    Bucket,
    Category,
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

if TYPE_CHECKING:
    from sqlflow_elastic.models.features.encoder import Encoder
    from sqlflow_elastic.models.features.inputs import FeatureInputs

__all__ = [
    "Bucket",
    "Category",
    "CategoryHash",
    "CategoryId",
    "ClassLabel",
    "Column",
    "Cross",
    "Dense",
    "Embedding",
    "Encoder",
    "FeatureInputs",
    "Field",
    "Indicator",
    "Kind",
    "Label",
    "NumberLabel",
    "SeqCategoryId",
    "Sparse",
    "TimeParts",
    "Vocabulary",
    "WeightedCategory",
]


def __getattr__(name: str) -> Any:
    if name == "Encoder":
        from sqlflow_elastic.models.features.encoder import Encoder

        return Encoder
    if name == "FeatureInputs":
        from sqlflow_elastic.models.features.inputs import FeatureInputs

        return FeatureInputs
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
