"""A trained model for use elsewhere: one that takes raw columns, as a Keras file and as a TensorFlow SavedModel."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from sqlflow_elastic.errors import StorageError
from sqlflow_elastic.models.artifact import Artifact, load_artifact
from sqlflow_elastic.models.features.columns import ClassLabel
from sqlflow_elastic.models.features.inputs import FeatureInputs, ascii_name
from sqlflow_elastic.models.features.preprocessing import raw_inputs
from sqlflow_elastic.models.features.raw import INTEGER_NULL, TEXT_NULL
from sqlflow_elastic.models.local_tables import network_with_tables

#: What stands for NULL in a raw input of each type; JSON has no NaN.
NULLS: dict[str, Any] = {"float64": "NaN", "int64": INTEGER_NULL, "string": TEXT_NULL}


def raw_model(artifact: Artifact) -> keras.Model:
    """Encoder and network as one model.

    Input: a dictionary of tensors [rows] by field: float64 (NaN is NULL), int64 (the smallest is NULL; times are
    seconds since 1970, booleans 0 and 1) or string (``\\N`` is NULL).
    Output: probabilities float32 [rows, classes] in the order of the classes, or what the network says, if it is no
    classifier.
    """
    encoder = artifact.encoder
    inputs = raw_inputs({name: tensor.dtype for name, tensor in encoder.model.input.items()})
    outputs = network_with_tables(artifact)(encoder.model(inputs))
    if isinstance(artifact.label, ClassLabel):
        outputs = probabilities(outputs)
    return keras.Model(inputs, outputs)


def probabilities(logits: Any) -> Any:
    """A classifier's outputs, [rows, 1] or [rows, classes] → probabilities [rows, classes]."""
    if logits.shape[1] == 1:
        return ops.concatenate([ops.sigmoid(-logits), ops.sigmoid(logits)], axis=1)
    return ops.softmax(logits)


def export(
    artifact_path: Path, directory: Path, build_model: Callable[[FeatureInputs], keras.Model] | None = None
) -> None:
    """Write a trained model that takes raw columns.

    ``directory`` gets

    - ``model.keras``; to load it, import this module: it has layers of this package. A network of a user's class that
      Keras cannot describe (without a ``get_config`` that works) has none;
    - ``saved_model/``, for ``tf.saved_model.load(…).serve({field: tensor})`` without this package;
    - ``model.json``: the inputs with their types and what is NULL there, and the classes.

    ``build_model`` is as for `load_artifact`.

    Raises: ModelStoreError: the artifact is damaged, its network cannot be built, or its tables are too large for one.
    StorageError: a file cannot be written.
    """
    artifact = load_artifact(artifact_path, build_model)
    model = raw_model(artifact)
    try:
        _write(artifact, model, directory)
    except (OSError, tf.errors.OpError) as error:
        if (refused := StorageError.of(error, "the exported model cannot be written")) is None:
            raise
        raise refused from error


def _write(artifact: Artifact, model: keras.Model, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    keras_file = directory / "model.keras"
    try:
        model.save(keras_file)
    except (NotImplementedError, TypeError, ValueError):
        keras_file.unlink(missing_ok=True)
    module = tf.Module()
    module.model = model
    module.serve = tf.function(lambda raw: model(raw), input_signature=[_signature(model)], autograph=False)
    tf.saved_model.save(module, str(directory / "saved_model"), signatures=module.serve)
    description = {
        "inputs": {
            name: {
                "kind": next(field.kind for field in artifact.fields if field.name == name),
                "dtype": spec.dtype.name,
                "null": NULLS[spec.dtype.name],
                "signature_name": spec.name,
            }
            for name, spec in _signature(model).items()
        },
        "classes": list(artifact.statistics.classes) or None,
    }
    text = json.dumps(description, ensure_ascii=False, indent=2)
    (directory / "model.json").write_text(text + "\n", encoding="utf-8")


def _signature(model: keras.Model) -> dict[str, tf.TensorSpec]:
    """The raw inputs as a function's arguments; names are of the characters that a graph allows."""
    return {name: tf.TensorSpec([None], tensor.dtype, name=ascii_name(name)) for name, tensor in model.input.items()}
